"""Keeps credentials, and the user's home directory, out of results and logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = [
    "home_directories",
    "redacted",
    "scrub_files",
    "secret_keys",
    "secret_values",
    "without_home",
    "without_secrets",
]

_MASK: Final = "[secret]"
_SECRET_NAME: Final = re.compile(r"secret|token|passw|credential|private_?key|access_?key|api_?key|sas_?key", re.I)
_SHORTEST: Final = 8  # a shorter value cannot be told from ordinary text
_CERTAIN: Final = 16  # one of this length is no word; real services give 20 characters and more


def secret_values(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of the environment's variables whose names say that they are secret, the longest first.

    Args:
        environment: the process's own when None.
    """
    variables = os.environ if environment is None else environment
    values = {v for name, v in variables.items() if _SECRET_NAME.search(name) and len(v) >= _SHORTEST}
    # A value that names a file (AWS_WEB_IDENTITY_TOKEN_FILE) is no secret, and paths belong into messages.
    return tuple(sorted((value for value in values if not value.startswith("/")), key=len, reverse=True))


def redacted(text: str, secrets: Iterable[str]) -> str:
    """``text`` with each of the secrets replaced by a mark."""
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return text


def home_directories() -> tuple[str, ...]:
    """The user's home directory as it may be written, the longest first; none where it is the root or not known."""
    try:
        home = Path.home()
        names = {str(home), str(home.resolve())}
    except (OSError, RuntimeError):
        return ()
    return tuple(sorted((name for name in names if len(name) > 1), key=len, reverse=True))


def without_home(content: Any, homes: Iterable[str]) -> Any:
    """A JSON value in whose texts, names and values, a path below the home directory begins with ``~``.

    Args:
        content: what is to be told.
        homes: see ``home_directories``. A longer path that ends in the same words, such as the key of an object, is
            not theirs.
    """
    homes = tuple(homes)
    if isinstance(content, Mapping):
        return {without_home(key, homes): without_home(value, homes) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_home(item, homes) for item in content]
    if isinstance(content, str):
        for home in homes:
            content = _home_pattern(home).sub("~", content)
    return content


@cache
def _home_pattern(home: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?<=file://)|(?<![\w/.~-])){re.escape(home)}(?![\w-])(?!\.\w)")


def scrub_files(paths: Iterable[Path], secrets: Iterable[str], homes: Iterable[str] = ()) -> None:
    """Replace secrets in files that a measured process has written, such as a client's own debug log.

    Args:
        paths: of the files; those that are not there are passed over.
        secrets: what is replaced.
        homes: see ``without_home``; replaced as well.
    """
    needles = [secret.encode() for secret in secrets]
    patterns = [_home_pattern(home) for home in homes]
    for path in paths:
        if not path.is_file():
            continue
        content = path.read_bytes()
        clean = content
        for needle in needles:
            clean = clean.replace(needle, _MASK.encode())
        if patterns:
            text = clean.decode("utf-8", errors="surrogateescape")
            for pattern in patterns:
                text = pattern.sub("~", text)
            clean = text.encode("utf-8", errors="surrogateescape")
        if clean != content:
            path.write_bytes(clean)


def secret_keys(config: Any, path: str = "", *, secrets: Iterable[str] = ()) -> list[str]:
    """The dotted keys of a configuration that hold a credential by their name, or an address with a password in it.

    Args:
        config: plain nested values.
        path: what the keys begin with.
        secrets: see ``secret_values``. A key whose text has one of them in it is found whatever its name, unless the
            value is so short that it may be a word that the configuration uses for itself.
    """
    long = tuple(secret for secret in secrets if len(secret) >= _CERTAIN)
    if isinstance(config, Mapping):
        found = []
        for key, value in config.items():
            dotted = f"{path}.{key}" if path else str(key)
            if isinstance(value, str) and value and _SECRET_NAME.search(str(key)):
                found.append(dotted)
            else:
                found.extend(secret_keys(value, dotted, secrets=long))
        return found
    if isinstance(config, list | tuple):
        return [key for index, item in enumerate(config) for key in secret_keys(item, f"{path}[{index}]", secrets=long)]
    if not isinstance(config, str):
        return []
    has_password = "://" in config and _has_password(config)
    return [path] if has_password or any(secret in config for secret in long) else []


def without_secrets(content: Any, secrets: Iterable[str], *, by_name: bool = False) -> Any:
    """A JSON value with a mark in the place of each secret and of each address with a password in it.

    Args:
        content: what is to be told.
        secrets: values that must not be.
        by_name: whether text whose key says that it is secret is marked too; for configurations. Elsewhere a key may be
            anything, such as the name of a package (``tokenizers``).
    """
    secrets = tuple(secrets)
    if isinstance(content, Mapping):
        return {
            key: _MASK
            if by_name and isinstance(value, str) and value and _SECRET_NAME.search(str(key))
            else without_secrets(value, secrets, by_name=by_name)
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [without_secrets(item, secrets, by_name=by_name) for item in content]
    if not isinstance(content, str):
        return content
    return _MASK if "://" in content and _has_password(content) else redacted(content, secrets)


def _has_password(address: str) -> bool:
    try:
        return urlsplit(address).password is not None
    except ValueError:
        return False
