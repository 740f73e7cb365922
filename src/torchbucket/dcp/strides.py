"""How a contiguous tensor lies in memory."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["contiguous_strides"]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements, as torch has them."""
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))
