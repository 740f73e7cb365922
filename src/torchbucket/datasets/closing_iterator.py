"""What ``iter`` of a data set returns: dropping it ends the reads, while the data set still knows how far it got."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

from torchbucket.datasets.resumable_iterator import ResumableIterator

__all__ = ["ClosingIterator"]

T_co = TypeVar("T_co", covariant=True)


class ClosingIterator(Iterator[T_co]):
    """The consumer's hold of an iteration.

    A data set keeps its latest iteration, whose state it may be asked for; the consumer has this. When the consumer
    leaves a loop early, the last reference to this goes, and the iteration is closed: what was fetched ahead is
    dropped, and temporary objects are removed, at once and not with the data set.

    Args:
        iteration: what yields.
    """

    def __init__(self, iteration: ResumableIterator[T_co, Any]) -> None:
        self._iteration = iteration

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T_co:
        return self._iteration.__next__()

    def state_dict(self) -> dict[str, Any]:
        """How far the iteration got."""
        return self._iteration.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of the same rank and worker among as many."""
        self._iteration.load_state_dict(state)

    def close(self) -> None:
        """End the iteration and drop the reads that are under way; closing again is allowed."""
        self._iteration.close()

    def __del__(self) -> None:
        self._iteration.close()
