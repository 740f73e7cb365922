"""Which values a key of the configuration takes: a test of a value, and the words for what it accepts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from bucketbench.errors import ConfigurationError

__all__ = [
    "DOTTED_PATH",
    "PLAIN_NAME",
    "Rule",
    "check_keys",
    "matching",
    "one_of",
    "optional",
    "parsed",
    "positive",
    "prefix",
    "whole",
]

Rule = tuple[Callable[[Any], bool], str]
"""Whether a value is accepted, and in words what is. The test may raise ValueError, whose message is then shown."""


def check_keys(group: str, fields: Any, expected: Collection[str]) -> None:
    """Raise where a file of a group, which no schema describes, has not the keys that it needs, or has others.

    Raises:
        ConfigurationError: names what is missing and what is unknown.
    """
    if not isinstance(fields, Mapping):
        raise ConfigurationError(f"{group}: expected keys and values, found {fields!r}")
    if wrong := sorted(set(expected) ^ set(map(str, fields))):
        raise ConfigurationError(
            f"{group}: {', '.join(wrong)} is missing or unknown; there have to be {', '.join(sorted(expected))}"
        )


def whole(least: int, most: int) -> Rule:
    """A whole number from ``least`` to ``most``."""
    return (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        f"a whole number from {least} to {most}",
    )


def positive(most: float) -> Rule:
    """A number above 0, at most ``most``."""
    return (
        lambda value: isinstance(value, int | float) and math.isfinite(value) and 0 < value <= most,
        f"a number above 0, at most {most:g}",
    )


def one_of(choices: Sequence[str]) -> Rule:
    """One of some words."""
    return lambda value: value in choices, f"one of {', '.join(choices)}"


def matching(pattern: re.Pattern[str], words: str) -> Rule:
    """Text that a pattern matches as a whole."""
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None, words


def parsed(parse: Callable[[Any], Any], words: str) -> Rule:
    """What a function takes without a ValueError."""

    def accepts(value: Any) -> bool:
        parse(value)
        return True

    return accepts, words


def optional(rule: Rule, words: str) -> Rule:
    """Null, or what another rule accepts."""
    accepts = rule[0]
    return lambda value: value is None or accepts(value), words


def _is_prefix(value: Any) -> bool:
    # It is also the name of a directory, below cache_dir: it must not lead out of it.
    segments = str(value).removesuffix("/").split("/")
    if not isinstance(value, str) or any(segment in ("", ".", "..") for segment in segments) or "\0" in value:
        raise ValueError(
            "expected null or the beginning of a key, such as datasets/photos, without . or .. or // in it"
        )
    return True


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", re.ASCII)
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)+", re.ASCII)

PLAIN_NAME: Final = matching(_NAME, "a name of letters, digits and ._+- that begins with a letter or digit")
DOTTED_PATH: Final = matching(_DOTTED, "the dotted path of a class, such as my_module.MyClient")

prefix: Final = optional((_is_prefix, ""), "null or the beginning of a key")
"""Null, or what keys begin with."""
