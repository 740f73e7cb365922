"""Byte ranges of GET and HEAD. *Source*: RFC 9110 section 14, and what the providers do where it leaves a choice."""

import re

__all__ = ["UnsatisfiableRangeError", "byte_range", "content_range"]

_RANGE = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*\Z", re.IGNORECASE | re.ASCII)


_BEYOND = 10**18
"""A position after the last byte of any object. *Source*: no provider stores an object of an exabyte."""


class UnsatisfiableRangeError(ValueError):
    """A range holds no byte of the object; the dialect answers 416 with the object's size."""


def byte_range(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Returns the `start, stop` that a Range header asks for, or None where the whole object is to be sent.

    Providers ignore a header they do not understand, several ranges included, and one whose last byte lies before its
    first. A range that reaches beyond the end is cut there; one that holds no byte of the object raises
    UnsatisfiableRangeError.
    """
    match = _RANGE.match(header)
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if not first:
        count = min(_position(last), size_bytes)
        start, stop = size_bytes - count, size_bytes
    else:
        start = _position(first)
        stop = min(_position(last) + 1, size_bytes) if last else size_bytes
        if last and _position(last) < start:
            return None
    if start >= stop:
        raise UnsatisfiableRangeError(f"{header} holds no byte of {size_bytes}")
    return start, stop


def _position(digits: str) -> int:
    """Returns a number of any length, which Python converts only up to 4,300 digits; a huge one is _BEYOND.

    *Source*: RFC 9110 section 14.1.1: a recipient must anticipate large numerals, and avoid errors in converting them.
    """
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) < len(str(_BEYOND)) else _BEYOND


def content_range(start: int, stop: int, size_bytes: int) -> bytes:
    """Returns the Content-Range value for bytes from `start` to before `stop`."""
    return b"bytes %d-%d/%d" % (start, stop - 1, size_bytes)
