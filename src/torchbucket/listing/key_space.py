"""Where among all possible keys the names of a listing may lie, as far as the names seen so far tell.

Nothing here can make a listing wrong: a guess only says where a second request may usefully begin. So names are
counted like numbers, roughly: the characters seen at a position are its digits, in their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isqrt
from os.path import commonprefix
from typing import Final

__all__ = ["KeySpace", "successor"]

# Names of a page that are looked at: enough for the ten values of a digit, cheap beside a page.
_SAMPLE: Final = 32

# Positions counted beyond the first at which two names differ, so that a page is many steps wide.
_FINER: Final = 3

# Code points that no text holds. Source: The Unicode Standard, D71 to D76.
_SURROGATES: Final = range(0xD800, 0xE000)
_LAST: Final = 0x10FFFF


class KeySpace:
    """Learns from names which characters follow one another, and finds keys between two others.

    Args:
        prefix: what every key begins with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: list[set[str]] = []
        self._pages = 0
        self._stale_from = 0
        self._stale = False
        self._stem = prefix
        self._digits: list[list[str]] = []
        self._varying: list[int] = []

    @property
    def age(self) -> int:
        """Grows when guesses may come out otherwise than before."""
        return self._stale_from

    def learn(self, names: Sequence[str]) -> None:
        """Look at some of the names of a page, which are sorted."""
        self._pages += 1
        skipped, seen = len(self._prefix), self._seen
        for name in {names[0], names[-1], *names[:: max(1, len(names) // _SAMPLE)]}:
            tail = name[skipped:]
            while len(seen) < len(tail):
                seen.append(set())
            for place, character in zip(seen, tail, strict=False):
                if character not in place:
                    place.add(character)
                    self._stale = True
        # Renewed as pages accumulate, not with each: names in many scripts show new characters on every page.
        if self._stale and self._pages > self._stale_from * 9 // 8:
            self._renew()

    def _renew(self) -> None:
        self._stale = False
        self._stale_from = self._pages
        alphabets = _alphabets(self._seen)
        self._digits = [alphabets.get(min(place), sorted(place)) for place in self._seen]
        first = next((index for index, digits in enumerate(self._digits) if len(digits) > 1), len(self._digits))
        self._stem = self._prefix + "".join(digits[0] for digits in self._digits[:first])
        self._varying = [index for index, digits in enumerate(self._digits) if len(digits) > 1]

    def pages_between(self, after: str, stop: str | None, *, first: str, last: str) -> float:
        """How many pages may lie between two keys, if names are as dense there as from ``first`` to ``last``."""
        low, high, width, _ = self._measured(after, stop, first, last)
        return min((high - low) / width, 1e9) if high - low < width << 30 else 1e9

    def between(self, after: str, stop: str | None, *, first: str, last: str, plausible_pages: int) -> str | None:
        """A key that may well part what lies between two others, a page's width away from both; None for no guess.

        Half-way where there may be as many pages as that, and otherwise half-way in magnitude: of names that take a
        small corner of what is possible, so few guesses find the corner.
        """
        low, high, width, depth = self._measured(after, stop, first, last)
        distance = high - low - width  # The first page is on its way already.
        if distance < 2 * width:
            return None
        step = distance // 2 if distance <= plausible_pages * width else isqrt(distance * width)
        return _inside(self._key(low + width + step, depth), after, stop)

    def beyond(self, after: str, *, first: str, last: str) -> str | None:
        """A key that comes after every name that is spelled like those seen; None where it would not be after."""
        if not self._varying:
            return None
        place = len(self._stem)
        largest = ord(self._digits[place - len(self._prefix)][-1])
        seen = ord(last[place]) - ord(first[place]) if len(last) > place and len(first) > place else 0
        # Where one page runs through many characters, the next pages may run on.
        character = _character(largest + 1 + 4 * max(0, seen))
        key = self._stem + character if character else successor(self._stem, keep=len(self._prefix))
        return None if key is None or key <= after else key

    def _measured(self, after: str, stop: str | None, first: str, last: str) -> tuple[int, int, int, int]:
        """Two keys and the distance of two others as numbers, and the number of positions they were counted by."""
        ends = [after] if stop is None else [after, stop]
        depth = _FINER + max(len(_shared(first, last)), len(_shared(*ends)) if stop is not None else 0)
        high = self._top(depth) if stop is None else self._number(stop, depth)
        width = max(1, self._number(last, depth) - self._number(first, depth))
        return self._number(after, depth), high, width, depth

    def _number(self, key: str, depth: int) -> int:
        if not key.startswith(self._stem):
            return 0 if key < self._stem else self._top(depth)
        skipped, value, exact = len(self._prefix), 0, True
        for index in self._varying:
            at = index + skipped
            if at >= depth:
                break
            digits = self._digits[index]
            value *= len(digits)
            if exact and at < len(key):
                place = bisect_left(digits, key[at])
                value += place
                exact = place < len(digits) and digits[place] == key[at]
        return value

    def _top(self, depth: int) -> int:
        value = 1
        for index in self._varying:
            if index + len(self._prefix) >= depth:
                break
            value *= len(self._digits[index])
        return value

    def _key(self, number: int, depth: int) -> str:
        count = sum(1 for index in self._varying if index + len(self._prefix) < depth)
        chosen: dict[int, str] = {}
        for index in reversed(self._varying[:count]):
            number, place = divmod(number, len(self._digits[index]))
            # Lowest digits at the end say no more than a shorter key does.
            if place or chosen:
                chosen[index] = self._digits[index][place]
        length = max(chosen, default=-1) + 1
        return self._prefix + "".join(chosen.get(index, self._digits[index][0]) for index in range(length))


def _alphabets(seen: Sequence[set[str]]) -> dict[str, list[str]]:
    """For each character those that can stand where it stands: what occurs at one position belongs together."""
    groups: dict[str, set[str]] = {}
    for place in seen:
        joined = set(place)
        for character in place:
            if character in groups and groups[character] is not joined:
                other = groups[character]
                if len(other) > len(joined):
                    joined, other = other, joined
                joined |= other
                for moved in other:
                    groups[moved] = joined
        for character in place:
            groups[character] = joined
    distinct = {id(group): group for group in groups.values()}
    ordered = {identity: sorted(group) for identity, group in distinct.items()}
    return {character: ordered[id(group)] for character, group in groups.items()}


def successor(text: str, *, keep: int = 0) -> str | None:
    """The shortest text after every text that begins with this one; None where it would lose its first characters.

    Args:
        text: valid Unicode text.
        keep: how many of its first characters must stay.
    """
    while len(text) > keep:
        character = _character(ord(text[-1]) + 1)
        if character:
            return text[:-1] + character
        text = text[:-1]
    return None


def _character(point: int) -> str:
    """The first character from a code point on; empty where there is none."""
    if point in _SURROGATES:
        point = _SURROGATES.stop
    return chr(point) if point <= _LAST else ""


def _inside(key: str, after: str, stop: str | None) -> str | None:
    return key if after < key and (stop is None or key < stop) else None


def _shared(first: str, last: str) -> str:
    return commonprefix((first, last))  # noqa: RUF071  # texts, by characters
