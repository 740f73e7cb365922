"""Counts and sizes as people write them: ``100k`` samples, ``128MiB``; and as people read them, durations too."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

__all__ = ["format_bytes", "format_duration", "parse_count", "parse_resolution", "parse_size"]

# Source: BIPM SI brochure, 9th edition, table 7 (decimal); IEC 80000-13 (binary).
_DECIMAL: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}
_QUANTITY: Final = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*", re.ASCII)
_RESOLUTION: Final = re.compile(r"\s*(\d{1,6})\s*[xX]\s*(\d{1,6})\s*", re.ASCII)


def parse_count(text: str | int) -> int:
    """Turn ``100``, ``100k`` (100,000), ``1.5M`` or ``64Ki`` (65,536) into a whole number.

    Args:
        text: the count as a user wrote it; an ``int`` is taken as it is. ``K`` is read as ``k``.

    Raises:
        ValueError: it is no count, or not a whole one; the message quotes it and says what is expected.
    """
    expected = "a whole number such as 500, 100k (100,000) or 64Ki (65,536)"
    return _parse(text, units={**_DECIMAL, "K": 10**3, **_BINARY}, expected=expected, ambiguous=())


def parse_size(text: str | int) -> int:
    """Turn ``128MiB``, ``1.5GiB``, ``100kB`` or ``4096`` (bytes) into a number of bytes.

    A bare ``M`` or ``G`` is refused, since half of its readers mean 10^6 and the other half 2^20.

    Args:
        text: the size as a user wrote it; an ``int`` is a number of bytes. ``KB`` is read as ``kB``.

    Raises:
        ValueError: it is no size, or no whole number of bytes; the message quotes it and says what is expected.
    """
    decimal = {f"{prefix}B": factor for prefix, factor in _DECIMAL.items()}
    binary = {f"{prefix}B": factor for prefix, factor in _BINARY.items()}
    units = {"": 1, **decimal, "KB": 10**3, **binary}
    expected = "a size such as 100KiB, 128MiB, 1.5GiB, 500kB or a number of bytes"
    return _parse(text, units=units, expected=expected, ambiguous=("k", "K", "M", "G", "T", "P"))


def parse_resolution(text: str) -> tuple[int, int]:
    """Turn ``640x480`` into width and height, in pixels.

    Raises:
        ValueError: it is no resolution; the message quotes it.
    """
    match = _RESOLUTION.fullmatch(text)
    if match is None or not (int(match[1]) and int(match[2])):
        raise ValueError(f"{text!r} is not a resolution; expected WIDTHxHEIGHT in pixels, such as 256x256")
    return int(match[1]), int(match[2])


def format_bytes(size_bytes: float) -> str:
    """Show a number of bytes for people, in the largest binary unit of which there is one: ``1.5 GiB``."""
    value, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def format_duration(duration_s: float) -> str:
    """Show a duration for people, to the second below a minute and to the minute above: ``40 s``, ``2 h 5 min``."""
    if round(duration_s) < 60:
        return f"{max(duration_s, 0):.0f} s"
    hours, minutes = divmod(max(round(duration_s / 60), 1), 60)
    return " ".join(part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part)


def _parse(text: str | int, *, units: dict[str, int], expected: str, ambiguous: tuple[str, ...]) -> int:
    if isinstance(text, bool) or not isinstance(text, int | str):
        raise ValueError(f"{text!r} is not {expected}")
    if isinstance(text, int):
        if text < 0:
            raise ValueError(f"{text!r} is negative; expected {expected}")
        return text
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {expected}")
    unit = match["unit"]
    if unit in ambiguous:
        prefix = "k" if unit in "kK" else unit
        raise ValueError(
            f"{text!r} is ambiguous: write {match['number']}{prefix}B for powers of 1000 "
            f"or {match['number']}{unit.upper()}iB for powers of 1024"
        )
    if unit not in units:
        raise ValueError(f"{text!r} has the unknown unit {unit!r}; expected {expected}")
    value = Fraction(match["number"]) * units[unit]
    if value.denominator != 1:
        raise ValueError(f"{text!r} is no whole number; expected {expected}")
    return int(value)
