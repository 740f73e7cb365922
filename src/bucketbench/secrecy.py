"""Keeps credentials out of results and logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = ["redacted", "scrub_files", "secret_keys", "secret_values"]

_MASK: Final = "[secret]"
_SECRET_NAME: Final = re.compile(r"secret|token|passw|credential|private_?key|access_?key|api_?key|sas_?key", re.I)
_SHORTEST: Final = 8  # a shorter value cannot be told from ordinary text


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


def scrub_files(paths: Iterable[Path], secrets: Iterable[str]) -> None:
    """Replace secrets in files that a measured process has written, such as a client's own debug log."""
    needles = [secret.encode() for secret in secrets]
    for path in paths:
        if not path.is_file():
            continue
        content = path.read_bytes()
        clean = content
        for needle in needles:
            clean = clean.replace(needle, _MASK.encode())
        if clean != content:
            path.write_bytes(clean)


def secret_keys(config: Any, path: str = "") -> list[str]:
    """The dotted keys of a configuration that hold a credential by their name, or an address with a password in it."""
    if isinstance(config, Mapping):
        found = []
        for key, value in config.items():
            dotted = f"{path}.{key}" if path else str(key)
            if isinstance(value, str) and value and _SECRET_NAME.search(str(key)):
                found.append(dotted)
            else:
                found.extend(secret_keys(value, dotted))
        return found
    if isinstance(config, list | tuple):
        return [key for index, item in enumerate(config) for key in secret_keys(item, f"{path}[{index}]")]
    if isinstance(config, str) and "://" in config and _has_password(config):
        return [path]
    return []


def _has_password(address: str) -> bool:
    try:
        return urlsplit(address).password is not None
    except ValueError:
        return False
