"""What a DataLoader will ask for next: the indices that wait in a worker's queue, and those that a batch announces.

A loader sends each worker ``prefetch_factor`` batches of indices ahead (2 unless told otherwise), and the worker takes
one after another out of its queue. Whoever reads a batch can therefore know the next one, whatever sampler made it and
whichever library prepared the loader. torch has no public way to ask, so the queue is found among the arguments that
the worker's process was started with, by its parameter's name, which torch and torchdata share.

Batches of a ``ReadAheadBatchSampler`` say what comes after them, beyond what waits in the queue, and where there is no
queue. With neither, nothing is known ahead and everything else stays the same.
"""

from __future__ import annotations

import inspect
import multiprocessing
import queue
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, cast

from torch.utils.data import Dataset, Subset, get_worker_info

__all__ = ["AnnouncingBatch", "QueuedBatches"]

_PARAMETER = "index_queue"


class _Queue(Protocol):
    def get(self, block: bool = True, timeout: float | None = None) -> Any: ...


class AnnouncingBatch(list[int]):
    """A batch of indices that also carries the loader's batches after it; a list in every other respect."""

    following: Sequence[list[int]] = ()

    @classmethod
    def of(cls, batch: list[int], following: Sequence[list[int]]) -> Self:
        """Make one; pickled, it keeps both."""
        announcing = cls(batch)
        announcing.following = following
        return announcing


class _WatchedQueue:
    """A worker's queue that can be looked into: it hands out first what was looked at, when the worker asks.

    Items are counted from the first that was handed out since, so that several data sets may look, each for itself.
    """

    def __init__(self, index_queue: _Queue) -> None:
        self._get = index_queue.get
        self._waiting: deque[Any] = deque()  # taken out of the queue and not yet handed to the worker
        self.handed_out = 0
        self.latest: Any = None  # what the worker was handed last, and works on
        self.last_arrived: Any = None
        self._announced_rightly = True
        index_queue.get = self._hand_out  # type: ignore[method-assign]

    @classmethod
    def around(cls, index_queue: _Queue) -> _WatchedQueue:
        """Watch a queue, or find who does already."""
        watching = getattr(index_queue.get, "__self__", None)
        return watching if isinstance(watching, cls) else cls(index_queue)

    def batch(self, number: int) -> list[Any] | None:
        """The indices of an item that was not handed out, as far as they are known; None if not, or it is no batch."""
        place = number - self.handed_out
        if place >= len(self._waiting) and self._announced_rightly:
            announced = _next_of_worker(self.last_arrived, place - len(self._waiting))
            if announced is not None:
                return announced
        try:
            while place >= len(self._waiting):
                self._waiting.append(self._arrived(self._get(False)))
        except queue.Empty:
            return None
        return _indices(self._waiting[place])

    def _arrived(self, item: Any) -> Any:
        # Some other layer may deal out the batches differently: then they are not believed until one comes true.
        announced, indices = _next_of_worker(self.last_arrived, 0), _indices(item)
        if announced is not None and indices is not None:
            self._announced_rightly = announced == indices
        self.last_arrived = item
        return item

    def hand_over(self, item: Any) -> None:
        """Count an item as handed out that did not come through here."""
        self.latest = self._arrived(item)
        self.handed_out += 1

    def _hand_out(self, block: bool = True, timeout: float | None = None) -> Any:
        """Stand in for the queue's own ``get``."""
        self.latest = self._waiting.popleft() if self._waiting else self._arrived(self._get(block, timeout))
        self.handed_out += 1
        return self.latest


def _indices(item: Any) -> list[Any] | None:
    """What an item of a queue asks for; None of one that is no batch."""
    if not isinstance(item, tuple) or len(item) != 2:
        return None
    indices = item[1]
    if isinstance(indices, tuple) and len(indices) == 2 and isinstance(indices[1], bool):
        indices = indices[0]  # torchdata says in the second place whether a state is wanted
    return indices if isinstance(indices, list) else [indices]  # a loader without batches asks for one sample


def _next_of_worker(item: Any, place: int) -> list[int] | None:
    """The batch that this worker gets so many batches after the next, as an item announces; None if it does not."""
    indices, worker = _indices(item), get_worker_info()
    if not isinstance(indices, AnnouncingBatch):
        return None
    stride = worker.num_workers if worker else 1  # loaders deal out batches to their workers in turn
    position = (place + 1) * stride - 1
    return indices.following[position] if position < len(indices.following) else None


class QueuedBatches:
    """What a data set will be asked for next, found without changing what its worker gets, or when.

    Args:
        index_queue: the queue; its ``get`` is replaced, since what was looked at has to be handed out from here. None
            where there is none, and batches tell of those after them.
        position: translates an index of the loader's data set; raises IndexError where there is no such sample.
        certain: whether the loader's indices are known to be those that ``position`` takes. If not, batches that are
            asked for as the loader sent them show it (``is_loaders``).
    """

    def __init__(self, index_queue: _Queue | None, position: Callable[[Any], int], *, certain: bool = True) -> None:
        self._only_hears = index_queue is None
        self._queue = _WatchedQueue.around(queue.Queue() if index_queue is None else index_queue)
        self._position = position
        self._certain = certain
        self._next = self._queue.handed_out  # number of the item that ``next_batch`` tells

    @classmethod
    def of_this_process(cls, dataset: Dataset[Any], position: Callable[[Any], int]) -> QueuedBatches:
        """Find what a DataLoader's worker will be asked for; any other process learns it from ``hear`` alone.

        Args:
            dataset: who asks. The indices are known to be its own where it is the loader's data set, also under
                ``torch.utils.data.Subset`` (``random_split``), however deep. Another data set around it may mean
                something else by them.
            position: translates an index of ``dataset``.
        """
        worker, process = get_worker_info(), multiprocessing.current_process()
        target, arguments = getattr(process, "_target", None), getattr(process, "_args", ())
        named = dict(zip(inspect.signature(target).parameters, arguments, strict=False)) if worker and target else {}
        index_queue = named.get(_PARAMETER)
        if worker is None or not callable(getattr(index_queue, "get", None)):
            return cls(None, position, certain=False)
        outer, subsets = worker.dataset, list[Sequence[int]]()
        while type(outer) is Subset:
            subsets.append(outer.indices)
            outer = outer.dataset

        def translated(index: Any) -> int:
            for indices in subsets:
                index = indices[index]
            return position(index)

        return cls(cast(_Queue, index_queue), translated, certain=outer is dataset)

    def hear(self, batch: Sequence[int]) -> None:
        """Take a batch that is being asked for, and may announce others, where no queue has told of it."""
        if isinstance(batch, AnnouncingBatch) and (self._only_hears or self._queue.last_arrived is None):
            self._queue.hand_over((None, batch))

    def is_loaders(self, positions: Sequence[int]) -> bool:
        """Whether this is what the loader asked the worker for last, so that its next batches will be asked for too."""
        latest = self._queue.latest
        return self._certain if latest is None else self._positions(_indices(latest)) == positions

    def next_batch(self) -> list[int] | None:
        """The positions of the next batch that was not told yet, if it waits in the queue or was announced."""
        self._next = max(self._next, self._queue.handed_out)
        batch = self._positions(self._queue.batch(self._next))
        if batch is not None:
            self._next += 1
        return batch

    def tell_again(self) -> None:
        """Have ``next_batch`` begin with the batch that the worker gets next."""
        self._next = self._queue.handed_out

    def _positions(self, indices: Sequence[Any] | None) -> list[int] | None:
        """The positions that indices stand for; None where there are none, and of a batch that will fail."""
        try:
            return None if indices is None else [self._position(index) for index in indices]
        except (TypeError, ValueError, IndexError, KeyError):
            return None
