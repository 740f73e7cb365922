"""Whether every name was listed, once, with its size and no other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from bucketbench.scenarios.verification import NOTES_KEPT, VerificationCounts

__all__ = ["ListingCounts", "NamesTally"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListingCounts(VerificationCounts):
    """What the measured listings found, all of them together.

    ``mismatched`` are names that are not there, or have another size; the other counts are as for samples.
    """

    counted: ClassVar[str] = "names of the measured listings"


class NamesTally:
    """Compares listings with what is there, in whatever order the names come.

    Holds about 150 bytes a name, from before anything is measured. Not for use by several threads.
    """

    def __init__(self, expected: Iterable[tuple[str, int]]) -> None:
        """Compare with key and size in bytes of every object."""
        self._positions: dict[str, int] = {}
        self._sizes_bytes: list[int] = []
        for key, size_bytes in expected:
            self._positions[key] = len(self._sizes_bytes)
            self._sizes_bytes.append(size_bytes)
        self._seen = bytearray(len(self._sizes_bytes))
        self.taken = 0
        self._right = self._unknown = self._resized = self._again = 0
        self._checked = self._mismatched = self._missing = self._duplicated = 0
        self._notes: list[str] = []

    def __len__(self) -> int:
        return len(self._sizes_bytes)

    def take(self, names: Iterable[Any]) -> int:
        """Take in names of the current listing, as pairs of key and size in bytes, and return how many there were."""
        positions, sizes_bytes, seen = self._positions, self._sizes_bytes, self._seen
        before = self.taken
        taken, right = before, 0
        for key, size_bytes in names:
            taken += 1
            position = positions.get(key)
            if position is None:
                self._unknown += 1
                self._note(f"{_shortened(key)} was listed and is not there")
            elif seen[position]:
                self._again += 1
                self._note(f"{_shortened(key)} was listed more than once")
            elif sizes_bytes[position] != size_bytes:
                seen[position] = 1
                self._resized += 1
                self._note(f"{_shortened(key)} was listed with {size_bytes!r} bytes and has {sizes_bytes[position]}")
            else:
                seen[position] = 1
                right += 1
        self.taken = taken
        self._right += right
        return taken - before

    def close_pass(self) -> tuple[int, int]:
        """Count what is missing of the listing that has just ended, and begin another.

        Returns:
            How many names it got right, and how many wrong: unknown, missing, doubled or with another size.
        """
        missing = self._seen.count(0)
        if missing:
            key = next(key for key, position in self._positions.items() if not self._seen[position])
            self._note(f"{_shortened(key)} was not listed")
        right, wrong = self._right, self._unknown + self._resized + self._again + missing
        self._checked += self.taken
        self._mismatched += self._unknown + self._resized
        self._missing += missing
        self._duplicated += self._again
        self.taken = self._right = self._unknown = self._resized = self._again = 0
        self._seen = bytearray(len(self._sizes_bytes))
        return right, wrong

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
