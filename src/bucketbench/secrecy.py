"""Keeps credentials, and the user's home directory, out of results and logs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

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
_SECRET_NAME: Final = re.compile(
    r"secret|token|passw|passphrase|credential|authorization|bearer|connection[-_]?string"
    r"|(?:private|access|account|api|sas|shared|signing|storage|encryption|customer)[-_]?key",
    re.I,
)
_SECRET_NUMBER: Final = re.compile(r"secret|passw|passphrase", re.I)  # a number of tokens is no secret
_NAMES_A_FILE: Final = re.compile(r"(?:file|path|dir|credentials|uri)$", re.I)
_SHORTEST: Final = 8  # a shorter value cannot be told from ordinary text
_CERTAIN: Final = 16  # one of this length is no word; real services give 20 characters and more

# What is a credential by its form, wherever it stands: the user's own may be in a file or come from a service, where no
# variable of the environment tells it. Of each pattern the group `kept` stays. Most texts have none of the words that
# they begin with, and searching for those first takes a tenth of the time.
_FORMS: Final = tuple(
    (words, re.compile(pattern, re.I))
    for words, pattern in (
        # An address with a password in it, or with a token alone; one that is signed.
        (("://",), r"(?P<kept>://)[^\s/?#@\"'<>]{0,500}:[^\s/?#\"'<>]{0,2000}(?=@)"),
        (("http",), r"(?P<kept>(?-i:https?://))[^\s/?#@:\"'<>]{1,2000}(?=@)"),
        (
            ("sig", "-token=", "access", "credential="),
            r"(?P<kept>[?&;](?:amp;)?(?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|Signature|sig"
            r"|access_token|AWSAccessKeyId|GoogleAccessId)=)[^\s&\"'<>]+",
        ),
        # Headers.
        (("bearer", "basic"), r"(?P<kept>\b(?:Bearer|Basic)\s)[\w.~+/=-]{16,}"),
        (("signature=",), r"(?P<kept>\bSignature=)[\w+/=%-]{27,}"),
        # A name and its value, as files of settings, JSON and Python write them.
        (
            ("secret", "token", "key", "passw", "passphrase", "shared"),
            r"(?P<kept>(?:secret_?access_?key|(?:session|security|access|refresh|id)[-_]?token|client_?secret"
            r"|account_?key|api_?key|passw(?:or)?d|passphrase|shared_?access_?signature)\\?[\"']?\s?[:=]\s?"
            r"(?:b?\\?[\"'])?)(?!\[secret\])[^\s\"'\\,;&)}]{8,}",
        ),
        (("private key",), r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]+-----|\Z)"),
        # Keys of AWS, tokens of Google, JSON web tokens, those of GitHub and Hugging Face.
        (("akia", "asia"), r"(?-i:\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)"),
        (("ya29.", "aiza"), r"(?-i:\bya29\.[\w-]{20,}|\bAIza[\w-]{35})"),
        (("eyj",), r"(?-i:\beyJ[\w-]{10,5000}\.eyJ[\w-]{10,}\.[\w-]*)"),
        (("gh", "hf_"), r"(?-i:\bgh[oprsu]_\w{36,}|\bgithub_pat_\w{40,}|\bhf_[A-Za-z0-9]{30,})"),
    )
)


def secret_values(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of the environment's variables whose names say that they are secret, the longest first.

    Args:
        environment: the process's own when None.

    Returns:
        Each as it is, and where that differs as addresses and JSON write it.
    """
    variables = os.environ if environment is None else environment
    values = {
        value
        for name, value in variables.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST and not _is_path(name, value)
    }
    forms = {form for value in values for form in (value, quote(value, safe=""), json.dumps(value)[1:-1])}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _is_path(name: str, value: str) -> bool:
    """Whether a value names a file, which is no secret and belongs into messages.

    That it begins with a slash does not tell: one in 64 secret keys of AWS does.
    """
    return value.startswith("/") and (bool(_NAMES_A_FILE.search(name)) or os.path.exists(value))  # noqa: PTH110 - no error for a name that is too long


def redacted(text: str, secrets: Iterable[str]) -> str:
    """``text`` with a mark in the place of each of the secrets, and of all else that is a credential by its form."""
    for secret in secrets:
        text = text.replace(secret, _MASK)
    lowered = text.lower()
    for words, form in _FORMS:
        if any(word in lowered for word in words):
            text = form.sub(_masked, text)
    return text


def _masked(found: re.Match[str]) -> str:
    return found.groupdict().get("kept", "") + _MASK


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
        secrets: what is replaced, beside what is a credential by its form.
        homes: see ``without_home``; replaced as well.
    """
    secrets, homes = tuple(secrets), tuple(homes)
    for path in paths:
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
        clean = without_home(redacted(text, secrets), homes)
        if clean != text:
            path.write_bytes(clean.encode("utf-8", errors="surrogateescape"))


def secret_keys(config: Any, path: str = "", *, secrets: Iterable[str] = ()) -> list[str]:
    """The dotted keys of a configuration that hold a credential: by their name, their form or their value.

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
            found.extend([dotted] if _is_secret(key, value) else secret_keys(value, dotted, secrets=long))
        return found
    if isinstance(config, list | tuple):
        return [key for index, item in enumerate(config) for key in secret_keys(item, f"{path}[{index}]", secrets=long)]
    return [path] if isinstance(config, str) and redacted(config, long) != config else []


def without_secrets(content: Any, secrets: Iterable[str], *, by_name: bool = False) -> Any:
    """A JSON value with a mark in the place of each secret, in its texts and names.

    Args:
        content: what is to be told.
        secrets: values that must not be, beside what is a credential by its form.
        by_name: whether what has a key that says that it is secret is marked too; for configurations. Elsewhere a key
            may be anything, such as the name of a package (``tokenizers``).
    """
    secrets = tuple(secrets)
    if isinstance(content, Mapping):
        return {
            redacted(key, secrets) if isinstance(key, str) else key: _MASK
            if by_name and _is_secret(key, value)
            else without_secrets(value, secrets, by_name=by_name)
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return [without_secrets(item, secrets, by_name=by_name) for item in content]
    return redacted(content, secrets) if isinstance(content, str) else content


def _is_secret(key: Any, value: Any) -> bool:
    """Whether a key says that its value, or one of several, is a credential, and there is one."""
    if isinstance(value, list | tuple):
        return any(_is_secret(key, item) for item in value)
    if isinstance(value, str):
        return bool(value and _SECRET_NAME.search(str(key)))
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(_SECRET_NUMBER.search(str(key)))
