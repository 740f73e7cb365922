"""The names that are listed: their shapes, and how the same description gives the same names anywhere.

Only the standard library is needed here: a measured process in a peer's own interpreter makes the names that it expects
as the sweep's process made those that it wrote.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["MAX_COUNT", "MAX_SIZE_BYTES", "SHAPES", "NamesSpec"]

MAX_COUNT: Final = 10_000_000
"""Most names of one job. *Source*: ours; the measured process holds what it expects, about 200 bytes a name."""

MAX_SIZE_BYTES: Final = 1 << 16
"""Largest object, in bytes. *Source*: ours; a listing tells an object's size whatever it is."""


def _numbers(position: int, count: int) -> str:
    return f"{position:0{_digits(count)}d}"


def _hexadecimal(position: int, count: int) -> str:
    # The position makes it unique, should two hashes ever be equal.
    return f"{hashlib.blake2b(str(position).encode(), digest_size=8).hexdigest()}-{position:0{_digits(count)}d}"


def _dates(position: int, count: int) -> str:
    del count
    hour, part = divmod(position, _PARTS_AN_HOUR)
    day, hour = divmod(hour, 24)
    month, day = divmod(day, 28)
    year, month = divmod(month, 12)
    return f"{2000 + year:04d}/{1 + month:02d}/{1 + day:02d}/{hour:02d}/part-{part:05d}"


def _hot(position: int, count: int) -> str:
    number, one_of_a_hundred = divmod(position, 100)
    width = _digits(count)
    return f"cold-{number:0{width}d}/object" if one_of_a_hundred == 0 else f"hot/{position:0{width}d}"


def _nested(position: int, count: int) -> str:
    del count
    # Every word over three letters, the shorter ones first: each but the first has one that it extends.
    name = ""
    while position:
        position, letter = divmod(position - 1, 3)
        name = "-.a"[letter] + name
    return f"a{name}"


def _long(position: int, count: int) -> str:
    return f"{_LONG_PREFIX}{position:0{_digits(count)}d}"


def _unicode(position: int, count: int) -> str:
    word = _WORDS[position % len(_WORDS)]
    return f"{word}/{position:0{_digits(count)}d} {word[::-1]}"


_PARTS_AN_HOUR: Final = 60
_LONG_PREFIX: Final = "/".join(f"level-{number:02d}-of-a-long-path" for number in range(9))[:199] + "-"

# Of one to four bytes a character in UTF-8, on both sides of the surrogates' gap, with a sign that is joined to the one
# before it, with spaces and what addresses must escape. None is written from right to left, for the sake of terminals.
_WORDS: Final = (
    "plain",
    "größe",
    "données+50%",
    "εἰκόνα",
    "картинка",
    "画像",
    "이미지",
    "a\u0301?b&c",
    "\ufffd#d",
    "🖼️",
    "\U0001d538\U0001d553\U0001d554",
)

SHAPES: Final[Mapping[str, Callable[[int, int], str]]] = {
    "numbers": _numbers,
    "hex": _hexadecimal,
    "dates": _dates,
    "hot": _hot,
    "nested": _nested,
    "long": _long,
    "unicode": _unicode,
}
"""How the name at a position, of so many, is made, by the name of the shape. ``conf/listing.yaml`` explains them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamesSpec:
    """Which objects a listing has to find.

    Args:
        count: how many there are, from 1.
        shape: one of ``SHAPES``.
        max_size_bytes: the objects' sizes go through 1 to this, so that a wrong one is seen; 0 for empty objects.
    """

    count: int
    shape: str
    max_size_bytes: int

    def objects(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Key and size in bytes of each object, in no particular order, every key once.

        Args:
            prefix: what all keys begin with.
        """
        name = SHAPES[self.shape]
        for position in range(self.count):
            size_bytes = 1 + position % self.max_size_bytes if self.max_size_bytes else 0
            yield prefix + name(position, self.count), size_bytes

    def to_json(self) -> dict[str, Any]:
        """The description as plain JSON values."""
        return asdict(self)


def _digits(count: int) -> int:
    """How many digits the numbers of so many names take, so that their order is that of the numbers."""
    return math.floor(math.log10(max(count - 1, 1))) + 1
