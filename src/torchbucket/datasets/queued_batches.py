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


class QueuedBatches:
    """Looks into a worker's queue without changing what the worker gets, or when.

    Args:
        index_queue: the queue; its ``get`` is replaced, since what was looked at has to be handed out from here.
        position: translates an index of the loader's data set; raises IndexError where there is no such sample.
    """

    def __init__(self, index_queue: _Queue, position: Callable[[Any], int]) -> None:
        self._get = index_queue.get
        self._position = position
        self._waiting: deque[Any] = deque()  # taken out of the queue and not yet handed to the worker
        self._seen = 0  # how many of them ``next_batch`` has told
        index_queue.get = self._hand_out  # type: ignore[method-assign]

    @classmethod
    def of_this_worker(cls, dataset: Dataset[Any], position: Callable[[Any], int]) -> QueuedBatches | None:
        """Find what this process will be asked for; None unless it is a worker that reads ``dataset``.

        Args:
            dataset: the loader's own, or under ``torch.utils.data.Subset`` (``random_split``), however deep. Another
                data set around it may mean something else by its indices.
            position: translates an index of ``dataset``.
        """
        worker = get_worker_info()
        if worker is None:
            return None
        outer, subsets = worker.dataset, list[Sequence[int]]()
        while outer is not dataset:
            if type(outer) is not Subset:
                return None
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

        return cls(cast(_Queue, index_queue), translated)

    def next_batch(self) -> list[int] | None:
        """The positions of the next batch that was not told yet and waits in the queue; None where there is none."""
        if self._seen == len(self._waiting):
            try:
                self._waiting.append(self._get(False))
            except queue.Empty:
                return None
        batch = self._positions(self._waiting[self._seen])
        if batch is not None:
            self._seen += 1
        return batch

    def tell_again(self) -> None:
        """Have ``next_batch`` begin with the batch that the worker gets next."""
        self._seen = 0

    def _hand_out(self, block: bool = True, timeout: float | None = None) -> Any:
        """Stand in for the queue's own ``get``."""
        if not self._waiting:
            return self._get(block, timeout)
        self._seen = max(0, self._seen - 1)
        return self._waiting.popleft()

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
