"""What a DataLoader's worker will be asked for next: the indices that wait in its queue already.

A loader sends each worker ``prefetch_factor`` batches of indices ahead (2 unless told otherwise), and the worker takes
one after another out of its queue. Whoever reads a batch can therefore know the next one, whatever sampler made it and
whichever library prepared the loader. torch has no public way to ask, so the queue is found among the arguments that
the worker's process was started with, by its parameter's name, which torch and torchdata share. Where there is no such
process or parameter, nothing is known ahead and everything else stays the same.
"""

from __future__ import annotations

import inspect
import multiprocessing
import operator
import queue
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from torch.utils.data import Dataset, Subset, get_worker_info

__all__ = ["QueuedBatches"]

_PARAMETER = "index_queue"


class _Queue(Protocol):
    def get(self, block: bool = True, timeout: float | None = None) -> Any: ...


class _WatchedQueue:
    """A worker's queue that can be looked into: it hands out first what was looked at, when the worker asks.

    Items are counted from the first that was handed out since, so that several data sets may look, each for itself.
    """

    def __init__(self, index_queue: _Queue) -> None:
        self._get = index_queue.get
        self._waiting: deque[Any] = deque()  # taken out of the queue and not yet handed to the worker
        self.handed_out = 0
        self.latest: Any = None  # what the worker was handed last, and works on
        index_queue.get = self._hand_out  # type: ignore[method-assign]

    @classmethod
    def around(cls, index_queue: _Queue) -> _WatchedQueue:
        """Watch a queue, or find who does already."""
        watching = getattr(index_queue.get, "__self__", None)
        return watching if isinstance(watching, cls) else cls(index_queue)

    def look_at(self, number: int) -> Any:
        """The item of a number that was not handed out; ``queue.Empty`` where it has not arrived."""
        while len(self._waiting) <= number - self.handed_out:
            self._waiting.append(self._get(False))
        return self._waiting[number - self.handed_out]

    def _hand_out(self, block: bool = True, timeout: float | None = None) -> Any:
        """Stand in for the queue's own ``get``."""
        self.latest = self._waiting.popleft() if self._waiting else self._get(block, timeout)
        self.handed_out += 1
        return self.latest


class QueuedBatches:
    """What a data set will be asked for next, found without changing what its worker gets, or when.

    Args:
        index_queue: the queue; its ``get`` is replaced, since what was looked at has to be handed out from here.
        position: translates an index of the loader's data set; raises IndexError where there is no such sample.
        certain: whether the loader's indices are known to be those that ``position`` takes. If not, batches that are
            asked for as the loader sent them show it (``is_loaders``).
    """

    def __init__(self, index_queue: _Queue, position: Callable[[Any], int], *, certain: bool = True) -> None:
        self._queue = _WatchedQueue.around(index_queue)
        self._position = position
        self._certain = certain
        self._next = self._queue.handed_out  # number of the item that ``next_batch`` tells

    @classmethod
    def of_this_worker(cls, dataset: Dataset[Any], position: Callable[[Any], int]) -> QueuedBatches | None:
        """Find what this process will be asked for; None unless it is a DataLoader's worker.

        Args:
            dataset: who asks. The indices are known to be its own where it is the loader's data set, also under
                ``torch.utils.data.Subset`` (``random_split``), however deep. Another data set around it may mean
                something else by them.
            position: translates an index of ``dataset``.
        """
        worker = get_worker_info()
        if worker is None:
            return None
        outer, subsets = worker.dataset, list[Sequence[int]]()
        while type(outer) is Subset:
            subsets.append(outer.indices)
            outer = outer.dataset
        process = multiprocessing.current_process()
        target, arguments = getattr(process, "_target", None), getattr(process, "_args", ())
        if target is None:
            return None
        named = dict(zip(inspect.signature(target).parameters, arguments, strict=False))
        index_queue = named.get(_PARAMETER)
        if not callable(getattr(index_queue, "get", None)):
            return None

        def translated(index: Any) -> int:
            for indices in subsets:
                index = indices[index]
            return position(index)

        return cls(cast(_Queue, index_queue), translated, certain=outer is dataset)

    def is_loaders(self, positions: Sequence[int]) -> bool:
        """Whether this is what the loader asked the worker for last, so that its next batches will be asked for too."""
        latest = self._queue.latest
        return self._certain if latest is None else self._positions(latest) == positions

    def next_batch(self) -> list[int] | None:
        """The positions of the next batch that was not told yet and waits in the queue; None where there is none."""
        self._next = max(self._next, self._queue.handed_out)
        try:
            batch = self._positions(self._queue.look_at(self._next))
        except queue.Empty:
            return None
        if batch is not None:
            self._next += 1
        return batch

    def tell_again(self) -> None:
        """Have ``next_batch`` begin with the batch that the worker gets next."""
        self._next = self._queue.handed_out

    def _positions(self, item: Any) -> list[int] | None:
        """The positions that an item asks for; None of one that is no batch, or one that will fail."""
        try:
            _, indices = item
            if isinstance(indices, tuple) and len(indices) == 2 and isinstance(indices[1], bool):
                indices = indices[0]  # torchdata says in the second place whether a state is wanted
            if not isinstance(indices, list):
                indices = [operator.index(indices)]  # a loader without batches asks for one sample
            return [self._position(index) for index in indices]
        except (TypeError, ValueError, IndexError, KeyError):
            return None
