"""Where among all possible keys the names of a listing may lie, as far as the names seen so far tell.

Nothing here can make a listing wrong: a guess only says where another request may usefully begin. So names are counted
like numbers, roughly: the characters that may stand at a position are its digits, in their order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isqrt, prod
from os.path import commonprefix
from typing import Final

__all__ = ["Guess", "KeySpace", "Spelling", "successor"]

# Names of a page that are kept to learn from: enough to show the ten values of a digit, cheap beside a page.
_SAMPLE: Final = 32

# Names that are looked at for the characters of one position.
_LOOKED_AT: Final = 128

# Positions counted beyond the first at which a page's names differ, so that the page is many steps wide.
_FINER: Final = 3

# Pages from different places that have the same character at a position before it is taken to have no other.
_CERTAIN_PLACES: Final = 4

# So many different characters in a sample are no digits but a script that the names run through.
_SCRIPT: Final = 24

# Digits that stand for such a script.
_GRID: Final = 1024

# Code points that no text holds. Source: The Unicode Standard, D71 to D76.
_SURROGATES: Final = range(0xD800, 0xE000)
_LAST: Final = 0x10FFFF


class KeySpace:
    """Keeps a sample of the names that were listed.

    Args:
        prefix: what every key begins with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: list[str] = []
        self._places = 0

    def learn(self, names: Sequence[str], *, elsewhere: bool) -> None:
        """Keep some names of a page, which are sorted and new.

        Args:
            names: the page's.
            elsewhere: the page does not go on where another one ended, so that it tells more.
        """
        sample = sorted({*names[:: max(1, len(names) // _SAMPLE)], names[-1]})
        at = bisect_left(self._names, sample[0])
        self._names[at:at] = sample
        self._places += elsewhere

    def around(self, first: str, last: str, stop: str | None) -> Spelling:
        """How names may be spelled after a page that begins and ends with these, up to ``stop``."""
        start = len(self._prefix)
        differ = len(_shared(first, last))
        fixed = max(start, len(_shared(self._names[0], self._names[-1])))
        page = self._names[bisect_left(self._names, first) : bisect_right(self._names, last)]
        seen = [{last[index]} for index in range(start, min(fixed, differ))]
        seen += [self._following(last, index) for index in range(start + len(seen), differ)]
        seen += [_characters(page, index) for index in range(start + len(seen), differ + 1 + _FINER)]
        seen[differ - start] |= self._following(last, differ) if differ < len(last) else set()
        groups = _groups(seen)
        uncertain = self._places < _CERTAIN_PLACES
        digits: list[Sequence[str]] = []
        runs_on = False
        for index, place in enumerate(seen, start):
            # Where names differ, more characters of their kind are likely to come; where none differ yet, only as long
            # as few names are known.
            likely = place and (index >= differ or uncertain or len(place) > 1)
            wide = place | groups.get(_kind(min(place)), place) if likely else place
            if len(wide) < _SCRIPT or "".join(wide).isascii():
                digits.append(sorted(wide))
                continue
            low, high = ord(min(wide)), ord(max(wide))
            if index == differ and high == ord(max(place)):
                # No other position has shown more characters: as the page runs through them, the next ones may.
                runs_on = True
                if stop is not None and len(stop) > differ and stop.startswith(last[:differ]):
                    high = max(high, ord(stop[differ]) - 1)
            digits.append(_grid(low, high))
        return Spelling(self._prefix, last, digits, runs_on=runs_on)

    def _following(self, name: str, index: int) -> set[str]:
        """What stands at a position in the names that share with one all before it."""
        before = name[:index]
        start = bisect_left(self._names, before)
        end = successor(before)
        stop = len(self._names) if end is None else bisect_left(self._names, end, start)
        step = max(1, (stop - start) // _LOOKED_AT)
        return _characters(self._names[start:stop:step], index) | {name[index]}


class Spelling:
    """Counts keys, and finds keys between two others, by the characters that may stand at each position.

    Args:
        prefix: what every key begins with.
        path: a name; where a position has one digit only, it is that name's character.
        digits: the characters of each position after the prefix, sorted; a position may have none.
        runs_on: names are likely to go on beyond the first position's digits.
    """

    def __init__(self, prefix: str, path: str, digits: Sequence[Sequence[str]], *, runs_on: bool = False) -> None:
        self._start = len(prefix)
        self._path = path
        self._digits = digits
        lead = next((index for index, place in enumerate(digits) if len(place) > 1), len(digits))
        self._lead = path[: self._start + lead]
        self._rest = digits[lead:]
        self._runs_on = runs_on

    def distance(self, start: str, stop: str | None) -> int:
        """How many keys there may be from one to another, or to the last one."""
        return (self._top() if stop is None else self._number(stop)) - self._number(start)

    def key_after(self, key: str, steps: int) -> str:
        """The key so many steps on."""
        number = min(self._number(key) + steps, self._top() - 1)
        chosen: list[str] = []
        for place in reversed(self._rest):
            if len(place) > 1:
                number, value = divmod(number, len(place))
                # The lowest digits at the end say no more than a shorter key does.
                if value or chosen:
                    chosen.append(place[value])
            elif chosen:
                chosen.extend(place)
        return self._lead + "".join(reversed(chosen))

    def beyond(self) -> str | None:
        """The shortest key after every name that is spelled like those seen."""
        if not self._rest or not self._rest[0]:
            return None
        low, high = ord(self._rest[0][0]), ord(self._rest[0][-1])
        further = _character(high + 4 * (high - low) + 1) if self._runs_on else ""
        return self._lead + further if further else successor(self._lead + chr(high), keep=self._start)

    def _number(self, key: str) -> int:
        if not key.startswith(self._lead):
            return 0 if key < self._lead else self._top()
        value, at = 0, len(self._lead)
        for index, place in enumerate(self._rest):
            if not place:
                continue
            value *= len(place)
            if at + index >= len(key):
                continue  # What is shorter comes first.
            character = key[at + index]
            digit = bisect_left(place, character)
            value += digit
            if digit == len(place) or place[digit] != character:
                # Between two digits: as far as the next one begins.
                return value * prod(len(later) for later in self._rest[index + 1 :] if later)
        return value

    def _top(self) -> int:
        return prod(len(place) for place in self._rest if place)


class Guess:
    """What may lie between two keys, and where to part it.

    Args:
        spelling: how names may be spelled there.
        after: the key that names come after.
        stop: the last key, or None for no end.
        first: the first name of a page that tells how dense names are.
        last: that page's last name.
    """

    def __init__(self, spelling: Spelling, after: str, stop: str | None, *, first: str, last: str) -> None:
        self._spelling = spelling
        self._after = after
        self._stop = stop
        self._width = max(1, spelling.distance(first, last))
        self._distance = spelling.distance(after, stop)

    @property
    def pages(self) -> float:
        """How many pages there may be, if names are as dense as in the page; at most a billion."""
        return float(min(self._distance * 16 // self._width, 16 * 10**9)) / 16

    def middle(self) -> str | None:
        """The key half-way between; None where no key is a page's width away from both ends."""
        distance = self._distance - self._width  # The first page is on its way already.
        return self._at(distance // 2) if distance >= 2 * self._width else None

    def nearer(self) -> str | None:
        """The key half-way between in magnitude: of names that take a small corner of what is possible, few such
        guesses find the corner."""
        distance = self._distance - self._width
        return self._at(isqrt(distance * self._width)) if distance >= 2 * self._width else None

    def _at(self, steps: int) -> str | None:
        return self._inside(self._spelling.key_after(self._after, self._width + steps))

    def beyond(self) -> str | None:
        """A key after all that is spelled like the names seen; None where there is none inside."""
        return self._inside(self._spelling.beyond())

    def _inside(self, key: str | None) -> str | None:
        if key is None or key <= self._after or (self._stop is not None and key >= self._stop):
            return None
        return key


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


def _characters(names: Iterable[str], index: int) -> set[str]:
    return {name[index] for name in names if index < len(name)}


def _kind(character: str) -> str:
    """Characters of one kind stand for one another; so do all outside ASCII, where a sample has few of many."""
    return character if character < "\x80" else "\x80"


def _groups(seen: Iterable[set[str]]) -> dict[str, set[str]]:
    """For each kind of character those that can stand where it stands: what varies at one position belongs together."""
    groups: dict[str, set[str]] = {}
    for place in seen:
        if len(place) < 2:
            continue
        kinds = set(map(_kind, place))
        found = {id(group): group for group in map(groups.get, kinds) if group is not None}
        joined = max(found.values(), key=len, default=set[str]())
        for group in [place, *found.values()]:
            if group is not joined:
                joined |= group
        for kind in {*kinds, *(kind for kind, group in groups.items() if id(group) in found)}:
            groups[kind] = joined
    return groups


@lru_cache(maxsize=256)
def _grid(low: int, high: int) -> tuple[str, ...]:
    """Characters evenly spread over many code points, in place of the few of them that a sample has."""
    step = max(1, (high - low) // _GRID)
    return tuple(chr(point) for point in range(low, high + 1, step) if point not in _SURROGATES)


def _shared(first: str, last: str) -> str:
    return commonprefix((first, last))  # noqa: RUF071  # texts, by characters
