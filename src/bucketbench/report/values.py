"""Values of keys as text: as a command line has them, and so that values that differ are texts that differ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["UNSET", "identity", "override_text", "parameter_text", "plain_text", "texts_by_key"]

_WORD: Final = re.compile(r"[\w./:@%+-]+", re.ASCII)


class _Unset:
    """What stands for a value that is not there, and is none of those that are."""

    def __str__(self) -> str:
        return "unset"


UNSET: Final = _Unset()


def plain_text(value: Any) -> str:
    """A value as it would be given on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def parameter_text(parameters: Mapping[str, Any]) -> str:
    """Parameters as they would be given on the command line."""
    return " ".join(f"{name}={plain_text(value)}" for name, value in parameters.items())


def identity(value: Any) -> str:
    """What is equal for values that are the same: the number 1, the number 1.0, the text 1 and true are four values.

    To Python three of them are equal.
    """
    return json.dumps(value, sort_keys=True, default=repr)


def texts_by_key(sets: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The values of several sets of keys as text, by which those of each key can be told apart.

    They are plain, unless a text of the key reads as another value does, or as none: then its texts are in quotes,
    ``2`` and ``"2"``.
    """
    values: dict[str, dict[str, set[str]]] = {}
    for one in sets:
        for key, value in one.items():
            values.setdefault(key, {}).setdefault(plain_text(value), set()).add(identity(value))
    quoted = {key for key, found in values.items() if "" in found or any(len(same) > 1 for same in found.values())}
    return [{key: (_quoted if key in quoted else plain_text)(value) for key, value in one.items()} for one in sets]


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else plain_text(value)


def override_text(value: Any) -> str:
    """A value as Hydra reads it back from the command line: a text that it would take for something else in quotes.

    *Source*: Hydra, "Basic override syntax", quoted values.
    """
    if not isinstance(value, str) or (_WORD.fullmatch(value) and not _reads_otherwise(value)):
        return plain_text(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _reads_otherwise(text: str) -> bool:
    """Whether a text reads as null, a truth value or a number."""
    try:
        float(text)
    except ValueError:
        return text.lower() in ("null", "true", "false")
    return True
