"""What an exception says, in one line and in words of the configuration: the reason of a job that failed."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["as_keys", "reason_of"]

_CHARACTERS: Final = 600  # what fits a table's note; the whole traceback is in benchmark.log
_LINES: Final = 4
# A setting with its value, as in advice, and one by its name, as where its value is refused.
_SETTING: Final = re.compile(r"StoreConfig\((?P<set>\w+)=(?P<value>[^()]*)\)|StoreConfig\.(?P<named>[a-z]\w*)")
_OF_TARGET: Final = ("region", "anonymous", "endpoint", "path_style", "ca_bundle")


def reason_of(error: BaseException, *, characters: int = _CHARACTERS) -> str:
    """An exception in one line: its type, the beginning of its message, and its last lines, where a wrapped traceback
    ends. Settings in it are named as ``as_keys`` names them.

    Args:
        error: what was raised.
        characters: the most that are returned.
    """
    lines = [line for line in str(error).splitlines() if any(map(str.isalnum, line))]
    told = lines if len(lines) <= _LINES else [lines[0], *lines[1 - _LINES :]]
    text = as_keys(" ".join(" ".join([f"{type(error).__name__}:", *told]).split()))
    text = text if told else text.removesuffix(":")
    return text if len(text) <= characters else f"{text[: characters - 3]}..."


def as_keys(text: str) -> str:
    """A message in which torchbucket's settings are named by the keys that set them here."""
    return _SETTING.sub(
        lambda found: _key(found["named"]) if found["named"] else f"{_key(found['set'], '+')}={found['value']}", text
    )


def _key(field: str, new: str = "") -> str:
    return f"target.{field}" if field in _OF_TARGET else f"{new}client.options.{field}"
