"""The reads of a DataLoader's batches: those of the next ones begin while this one's samples are made."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence

from torchbucket.datasets.prefetch import PrefetchBudget, ReadQueue
from torchbucket.datasets.queued_batches import QueuedBatches
from torchbucket.datasets.source import ObjectSource
from torchbucket.files.reader import ObjectReader

__all__ = ["BatchReadAhead"]


class BatchReadAhead:
    """Reads one batch after another and, within one budget, those that will be asked for after it.

    What was begun for a batch is used only where exactly that batch is asked for next; anything else drops it, so that
    no sample depends on what was foreseen. A read that fails is noticed by the batch that needs it. Not for use by
    several threads.

    Args:
        source: the objects.
        budget: bounds the bodies that were asked for and not handed out, of all batches together.
        queued: the batches to come.
    """

    def __init__(self, source: ObjectSource, budget: PrefetchBudget, queued: QueuedBatches) -> None:
        self._source = source
        self._budget = budget
        self._queued = queued
        self._busy = False
        self._looked = False
        self._begin_anew()

    def takes(self, indices: Sequence[int], positions: Sequence[int]) -> bool:
        """Whether these are a batch of the loader's, and none is being read.

        What a transform, a ``collate_fn`` or a data set around this one asks for besides is to be read elsewhere: it
        says nothing about the batches to come.
        """
        if self._busy:
            return False
        self._queued.hear(indices)
        return self._queued.is_loaders(positions)

    def read(self, positions: Sequence[int]) -> Generator[ObjectReader, None, None]:
        """Yield an open reader for each position of a batch, in order; see ``prefetch.open_readers``."""
        if self._foreseen and self._foreseen[0] == positions:
            self._foreseen.popleft()
        else:
            if self._foreseen:
                self._drop()
            self._positions.extend(positions)
        self._busy = True
        self._looked = False
        handed_out = 0
        try:
            for _ in positions:
                self._looked &= bool(self._foreseen)
                reader = self._reads.next_reader()
                handed_out += 1
                yield reader
                del reader
        finally:
            self._busy = False
            if handed_out < len(positions):
                self._drop()

    def _drop(self) -> None:
        self._reads.drop()
        self._queued.tell_again()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._foreseen: deque[list[int]] = deque()  # batches that were begun, or are next, and not asked for yet
        self._positions: deque[int] = deque()  # what is to be read and was not begun, in order
        self._reads = ReadQueue(self._source, self._next_position, self._budget)

    def _next_position(self) -> int | None:
        while not self._positions:
            batch = None if self._looked else self._queued.next_batch()
            if batch is None:
                self._looked = True  # in vain, and that takes microseconds: once a batch, unless none is foreseen
                return None
            self._foreseen.append(batch)
            self._positions.extend(batch)
        return self._positions.popleft()
