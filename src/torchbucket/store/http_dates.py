"""The dates of HTTP headers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

__all__ = ["http_seconds"]

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
