"""Names of shards from one text, as data sets of shards are mostly published: ``shard-{000000..000099}.tar``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from torchbucket.errors import ConfigError

__all__ = ["expand_braces"]

_RANGE: Final = re.compile(r"(-?\d+)\.\.(-?\d+)")

# Source: ours; a thousand times the shards of a large public data set (LAION-2B has some 230,000 of them).
_MOST: Final = 10_000_000


def expand_braces(pattern: str) -> list[str]:
    """Every text that a pattern stands for, as a shell expands it: ``{a,b}`` and ``{08..12}``, also several and nested.

    A range counts up or down by one, and its numbers are as wide as the wider end where an end has leading zeros.
    Braces that hold neither a comma nor a range stay as they are.

    Raises:
        ConfigError: more than ten million texts.
    """
    return list(_expanded(pattern))


def _expanded(pattern: str) -> Iterator[str]:
    for start, stop, commas in _groups(pattern):
        inner = pattern[start + 1 : stop]
        found = _RANGE.fullmatch(inner)
        if not commas and not found:
            continue
        edges = [start, *commas, stop]
        choices = (
            _numbers(found[1], found[2])
            if found
            else (text for left, right in pairwise(edges) for text in _expanded(pattern[left + 1 : right]))
        )
        # What follows is expanded once, not again for each choice.
        after = list(_expanded(pattern[stop + 1 :]))
        yield from _joined(pattern[:start], choices, after)
        return
    yield pattern


def _joined(before: str, choices: Iterator[str], after: list[str]) -> Iterator[str]:
    count = 0
    for choice in choices:
        count += len(after)
        if count > _MOST:
            raise ConfigError(f"{before}{{…}} stands for more than {_MOST} names; give a list of them, or a prefix")
        for end in after:
            yield before + choice + end


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


def _numbers(first: str, last: str) -> Iterator[str]:
    start, stop = int(first), int(last)
    padded = any(len(text.lstrip("-")) > 1 and text.lstrip("-").startswith("0") for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    if abs(stop - start) >= _MOST:
        raise ConfigError(f"{{{first}..{last}}} stands for more than {_MOST} names; give a list of them, or a prefix")
    for number in range(start, stop + 1) if stop >= start else range(start, stop - 1, -1):
        yield f"{number:0{width}d}"
