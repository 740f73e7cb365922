"""Whether every name was listed, once, with its size and no other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bucketbench.scenarios.verification import NOTES_KEPT, VerificationCounts

__all__ = ["ListingCounts", "NamesTally"]

_NOT_LEFT: Final = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class ListingCounts(VerificationCounts):
    """What the measured listings found, all of them together.

    ``mismatched`` are names that are not there, or have another size; the other counts are as for samples.
    """

    counted: ClassVar[str] = "names of the measured listings"


class NamesTally:
    """Compares listings with what is there, in whatever order the names come.

    Holds some 200 bytes a name, from before anything is measured, and takes about 0.3 µs a name. Not for use by several
    threads.
    """

    def __init__(self, expected: Iterable[tuple[str, int]]) -> None:
        """Compare with key and size in bytes of every object."""
        self._expected = dict(expected)
        self._remaining = self._expected.copy()
        self.taken = 0
        self._unknown = self._resized = self._again = 0
        self._checked = self._mismatched = self._missing = self._duplicated = 0
        self._notes: list[str] = []

    def __len__(self) -> int:
        return len(self._expected)

    @property
    def found_wrong(self) -> bool:
        """Whether anything was wrong in a closed listing."""
        return bool(self._mismatched or self._missing or self._duplicated)

    def take(self, names: Iterable[Any]) -> int:
        """Take in names of the current listing, as pairs of key and size in bytes, and return how many there were."""
        # One look-up a name that is right: this runs while the client is measured.
        pop, before, taken = self._remaining.pop, self.taken, self.taken
        for key, size_bytes in names:
            taken += 1
            there = pop(key, _NOT_LEFT)
            if there != size_bytes:
                self._wrong(key, size_bytes, there)
        self.taken = taken
        return taken - before

    def _wrong(self, key: Any, size_bytes: Any, there: Any) -> None:
        if there is not _NOT_LEFT:
            self._resized += 1
            self._note(f"{_shortened(key)} was listed with {size_bytes!r} bytes and has {there}")
        elif key in self._expected:
            self._again += 1
            self._note(f"{_shortened(key)} was listed more than once")
        else:
            self._unknown += 1
            self._note(f"{_shortened(key)} was listed and is not there")

    def close_pass(self) -> tuple[int, int]:
        """Count what is missing of the listing that has just ended, and begin another.

        Returns:
            How many names it got right, and how many wrong: unknown, missing, doubled or with another size.
        """
        missing = len(self._remaining)
        if missing:
            self._note(f"{_shortened(next(iter(self._remaining)))} was not listed")
        wrong = self._unknown + self._resized + self._again
        right = self.taken - wrong
        self._checked += self.taken
        self._mismatched += self._unknown + self._resized
        self._missing += missing
        self._duplicated += self._again
        self.taken = self._unknown = self._resized = self._again = 0
        self._remaining = self._expected.copy()
        return right, wrong + missing

    def counts(self) -> ListingCounts:
        """The counts of all listings that were closed."""
        return ListingCounts(
            checked=self._checked,
            mismatched=self._mismatched,
            missing=self._missing,
            duplicated=self._duplicated,
            errors=0,
            notes=tuple(self._notes),
        )

    def _note(self, text: str) -> None:
        if len(self._notes) < NOTES_KEPT:
            self._notes.append(text)


def _shortened(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-57:]}"
