"""Dates as HTTP headers and listings spell them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, overload

__all__ = ["IsoTimes", "http_seconds", "iso_seconds"]

_MONTHS: Final = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)  # noqa: SIM905
}


@lru_cache(maxsize=1024)
def http_seconds(text: str | None) -> float | None:
    """Seconds since the epoch of an HTTP date, None where it is none.

    By hand, since the standard parser costs as much as a signature.
    """
    if text is None:
        return None
    try:
        _, day, month, year, clock, _ = text.split(" ")
        hour, minute, second = clock.split(":")
        moment = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except (ValueError, KeyError):
        return None
    return moment.timestamp()


def iso_seconds(text: object) -> float | None:
    """Seconds since the epoch of a time in ISO 8601, None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None


class IsoTimes(Sequence["float | None"]):
    """Times written in ISO 8601, read when they are asked for: most who list want none of them."""

    __slots__ = ("_texts",)

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> float | None: ...

    @overload
    def __getitem__(self, index: slice) -> IsoTimes: ...

    def __getitem__(self, index: int | slice) -> float | IsoTimes | None:
        """The time in seconds since the epoch; None where the text is no time."""
        if isinstance(index, slice):
            return IsoTimes(self._texts[index])
        return iso_seconds(self._texts[index])
