"""Which range of keys to split, and where: what guesses have proved so far decides what is guessed next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from torchbucket.listing.key_space import Guess, KeySpace, Spelling

__all__ = ["KeyRange", "Kind", "Splitting"]

# A range of so many pages or more is worth a split. Source: simulation; two pages split give a request more, no time.
_WORTH_PAGES: Final = 3.0

# Up to so many pages, and 16 times those seen, a range is taken to be as full as its names suggest.
_PLAUSIBLE_PAGES: Final = 256
_PLAUSIBLE_GROWTH: Final = 16


class Kind(Enum):
    """Kinds of guesses, which prove good or bad together.

    ``MIDDLE`` parts a range that seems as full as a page of it. ``NEARER`` parts one that could hold far more than is
    plausible, in the middle of magnitudes. ``BEYOND`` comes after all that is spelled like the names seen.
    """

    MIDDLE = auto()
    NEARER = auto()
    BEYOND = auto()


@dataclass(eq=False, kw_only=True, slots=True)
class KeyRange:
    """Part of a listing: the keys after ``after`` up to and with ``stop``, or to the end.

    Args:
        after: goes up as pages come.
        stop: goes down as the range is split; None for the end.
        since: where the next request begins: at ``after``, or before it where it is a name, which the page must repeat.
        kind: the guess that made the range; None for the first.
        first: first name of the page that tells how dense names are here: the range's own, or that of the range it was
            split from until it has one; empty where there is none.
        last: last name of that page.
        pages: how many have come, of those after which the range goes on.
        is_answered: something has come, or nothing is waited for.
        right: the range that was split off last.
        tried: the key beyond all spellings that was tried.
        spelling: how names may be spelled here; None until it is asked for.
        guess: what may lie in the range; None until it is asked for.
    """

    after: str
    stop: str | None
    since: str
    kind: Kind | None = None
    first: str = ""
    last: str = ""
    pages: int = 0
    is_answered: bool = False
    right: KeyRange | None = None
    tried: str = ""
    spelling: Spelling | None = None
    guess: Guess | None = None


class Splitting:
    """Learns from the pages of one listing, and splits its ranges.

    Args:
        prefix: what every key begins with.
    """

    def __init__(self, prefix: str) -> None:
        self._space = KeySpace(prefix)
        self._whole_pages = 0
        self._middles_good = 0
        self._middles_bad = 0
        self._middles_open = 0

    def learn(self, part: KeyRange, names: list[str], *, is_whole: bool) -> None:
        """Take a page's names in, those that belong to the range.

        Args:
            part: the range.
            names: sorted; there may be none.
            is_whole: the page was as long as any, and the range has all of it.
        """
        if not part.is_answered:
            self.answer(part, is_good=is_whole)
            is_elsewhere = True
        else:
            is_elsewhere = False
        part.guess = None
        if names:
            self._whole_pages += is_whole
            self._space.learn(names, elsewhere=is_elsewhere)
            part.first, part.last, part.spelling = names[0], names[-1], None

    def answer(self, part: KeyRange, *, is_good: bool) -> None:
        """Note that the guess that made a range is answered, and whether it found a page of names."""
        part.is_answered = True
        if part.kind is Kind.MIDDLE:
            self._middles_open -= 1
            self._middles_good += is_good
            self._middles_bad += not is_good

    def pages_left(self, part: KeyRange) -> float:
        """How many pages a range may have; 0 where nothing is known yet."""
        return self._guess(part).pages if part.last else 0.0

    def split(self, part: KeyRange) -> KeyRange | None:
        """Split a range if anything tells that it is worth a request; return the new range, which is behind it."""
        found = self._key_inside(part) if part.last else None
        if found is None:
            return None
        key, kind = found
        self._middles_open += kind is Kind.MIDDLE
        part.right = KeyRange(
            after=key,
            stop=part.stop,
            since=key,
            kind=kind,
            first=part.first,
            last=part.last,
            spelling=part.spelling,
        )
        part.stop = key
        part.guess = None
        return part.right

    def _key_inside(self, part: KeyRange) -> tuple[str, Kind] | None:
        guess = self._guess(part)
        if part.stop is None and part.pages:
            # What is known of the names' spelling ends somewhere: ask once what comes after.
            key = guess.beyond()
            if key is not None and key != part.tried:
                part.tried = key
                return key, Kind.BEYOND
        if guess.pages < _WORTH_PAGES:
            return None
        waiting = part.right if part.right is not None and not part.right.is_answered else None
        if guess.pages <= _PLAUSIBLE_PAGES + _PLAUSIBLE_GROWTH * self._whole_pages:
            if waiting is None and part.pages:
                return _of(guess.middle(), Kind.MIDDLE)
            # This guess is built on another one, which may be wrong.
            builds_on_middle = waiting is None or waiting.kind is Kind.MIDDLE
            return _of(guess.middle(), Kind.MIDDLE) if builds_on_middle and self._are_middles_trusted() else None
        if part.pages and (waiting is None or waiting.kind is not Kind.NEARER):
            return _of(guess.nearer(), Kind.NEARER)
        return None

    def _are_middles_trusted(self) -> bool:
        good, bad = self._middles_good, self._middles_bad
        return good >= 2 * bad and self._middles_open <= 2 + 2 * good

    def _guess(self, part: KeyRange) -> Guess:
        if part.guess is None:
            if part.spelling is None:
                part.spelling = self._space.around(part.first, part.last, part.stop)
            part.guess = Guess(part.spelling, part.after, part.stop, first=part.first, last=part.last)
        return part.guess


def _of(key: str | None, kind: Kind) -> tuple[str, Kind] | None:
    return None if key is None else (key, kind)
