"""Names of shards from one text, as data sets of shards are mostly published: ``shard-{000000..000099}.tar``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from torchbucket.errors import ConfigError
from torchbucket.public import public

__all__ = ["expand_braces"]

_RANGE: Final = re.compile(r"(-?\d+)\.\.(-?\d+)")

# Source: ours; forty times the shards of a large public data set (LAION-2B has some 230,000 of them).
_MOST: Final = 10_000_000


@public
def expand_braces(pattern: str) -> list[str]:
    """Every text that a pattern stands for, as a shell expands it: ``{a,b}`` and ``{08..12}``, also several and nested.

    A range counts up or down by one, and its numbers are as wide as the wider end where an end has leading zeros.
    Braces that hold neither a comma nor a range stay as they are.

    Args:
        pattern: such as ``s3://bucket/train-{000000..000146}.tar``.

    Returns:
        The texts, in the pattern's order; the pattern alone where it holds nothing to expand.

    Raises:
        ConfigError: more than ten million texts.
    """
    return _expanded(pattern)


def _expanded(pattern: str) -> list[str]:
    for start, stop, commas in _groups(pattern):
        found = _RANGE.fullmatch(pattern, start + 1, stop)
        if found:
            choices = _numbers(found[1], found[2])
        elif commas:
            parts = [pattern[left + 1 : right] for left, right in pairwise([start, *commas, stop])]
            choices = [text for part in parts for text in _expanded(part)]
        else:
            continue
        following = _expanded(pattern[stop + 1 :])
        if len(choices) * len(following) > _MOST:
            raise _too_many(pattern)
        return [pattern[:start] + choice + end for choice in choices for end in following]
    return [pattern]


def _groups(pattern: str) -> Iterator[tuple[int, int, list[int]]]:
    """The outermost pairs of braces, and the commas that stand directly in each."""
    opened: list[tuple[int, list[int]]] = []
    closed: list[tuple[int, int, list[int]]] = []
    for index, character in enumerate(pattern):
        if character == "{":
            opened.append((index, []))
        elif character == "," and opened:
            opened[-1][1].append(index)
        elif character == "}" and opened:
            start, commas = opened.pop()
            closed.append((start, index, commas))
    # By their beginnings, so that an outer pair is expanded before what is in it.
    yield from sorted(closed)


def _numbers(first: str, last: str) -> list[str]:
    start, stop = int(first), int(last)
    if abs(stop - start) >= _MOST:
        raise _too_many(f"{{{first}..{last}}}")
    padded = any(len(text.lstrip("-")) > 1 and text.lstrip("-").startswith("0") for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in range(start, stop + 1) or range(start, stop - 1, -1)]


def _too_many(pattern: str) -> ConfigError:
    return ConfigError(f"{pattern!r} stands for more than {_MOST} names; give a list of addresses, or a prefix")
