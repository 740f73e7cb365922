"""The batch sampler that sends the next batches along with each, for map data sets that read ahead of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self

from torch.utils.data import BatchSampler

from torchbucket.datasets.queued_batches import AnnouncingBatch
from torchbucket.errors import ConfigError
from torchbucket.public import public

__all__ = ["ReadAheadBatchSampler"]


@public
class ReadAheadBatchSampler(BatchSampler):
    """Has a ``MapDataset`` read the next batches of a worker, or of a loader without workers, during this one.

    In place of a loader's ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``:

        DataLoader(dataset, num_workers=8, batch_sampler=ReadAheadBatchSampler(RandomSampler(dataset), 32))

    The batches are those of torch's ``BatchSampler``, in its order; each is a list that also carries the batches after
    it. Those of the same worker are read ahead within ``prefetch_bytes``. What is read ahead in vain is dropped, so no
    sample depends on it, and any other data set sees plain lists.

    It draws from its sampler as many batches sooner. ``StatefulDataLoader`` resumes it at the batch that was consumed,
    with the state of a sampler that has one.

    Args:
        sampler: yields indices; or batches of them where ``batch_size`` is None, as batch samplers do.
        batch_size: samples a batch.
        drop_last: leave out a last batch that is shorter.
        ahead: batches that are sent along, of all workers together.

    Raises:
        ConfigError: ``ahead`` is not a positive number.
        ValueError: ``batch_size`` or ``drop_last`` is wrong (torch's own).
    """

    def __init__(
        self,
        sampler: Iterable[int] | Iterable[list[int]],
        batch_size: int | None = None,
        drop_last: bool = False,
        *,
        ahead: int = 16,
    ) -> None:
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
            raise ConfigError(f"ahead must be a number of batches, at least 1; got {ahead!r}")
        if batch_size is None and type(sampler) is BatchSampler:
            # Frameworks look for the sampler of indices here, to seed or to replace it.
            inner: BatchSampler = sampler
            sampler, batch_size, drop_last = inner.sampler, inner.batch_size, inner.drop_last
        self.ahead = ahead
        self._cuts_batches = batch_size is not None
        if batch_size is not None:
            super().__init__(sampler, batch_size, drop_last)  # type: ignore[arg-type]  # indices, then
        else:
            self.sampler = sampler  # type: ignore[assignment]
            self.batch_size = getattr(sampler, "batch_size", None)  # type: ignore[assignment]
            self.drop_last = getattr(sampler, "drop_last", False)

    def __iter__(self) -> Iterator[list[int]]:
        """Begin a pass over the sampler."""
        return _Pass(self)

    def __len__(self) -> int:
        """How many batches a pass has, if the sampler has a length."""
        return super().__len__() if self._cuts_batches else len(self.sampler)  # type: ignore[arg-type]

    def batches_of(self, drawn: Iterator[Any]) -> Iterator[list[int]]:
        """Cut what the sampler yields into batches, drawing no more than the next one needs."""
        if self._cuts_batches:
            while (batch := [*islice(drawn, self.batch_size)]) and len(batch) >= self.batch_size * self.drop_last:
                yield batch
            return
        for batch in drawn:
            if not isinstance(batch, Iterable):
                raise ConfigError(f"a sampler that yields indices, such as {batch!r}, needs a batch_size")
            yield [*batch]


class _Pass(Iterator[list[int]]):
    """One pass. Its state is that of the batches it has yielded, and not of those that it has drawn for their hints."""

    def __init__(self, owner: ReadAheadBatchSampler) -> None:
        self._owner = owner
        self._begin()

    def _begin(self) -> None:
        self._indices = iter(self._owner.sampler)
        self._batches = self._owner.batches_of(self._indices)
        self._drawn: deque[tuple[list[int], dict[str, Any]]] = deque()  # each with the state after it
        self._state = self._sampler_state()
        self._yielded = 0

    def __next__(self) -> list[int]:
        for batch in islice(self._batches, self._owner.ahead + 1 - len(self._drawn)):
            self._drawn.append((batch, self._sampler_state()))
        if not self._drawn:
            raise StopIteration
        batch, self._state = self._drawn.popleft()
        self._yielded += 1
        return AnnouncingBatch.of(batch, [following for following, _ in self._drawn])

    def state_dict(self) -> dict[str, Any]:
        """How far the pass got, for ``StatefulDataLoader``."""
        return {"batches": self._yielded, **self._state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state. A sampler without states begins anew, and what was yielded is left out."""
        sampler: Any = self._owner.sampler
        if "sampler" in state_dict:
            sampler.load_state_dict(state_dict["sampler"])
        self._begin()
        if "iterator" in state_dict:
            iterator: Any = self._indices
            iterator.load_state_dict(state_dict["iterator"])
        if not state_dict.keys() & {"sampler", "iterator"}:
            deque(islice(self._batches, state_dict["batches"]), maxlen=0)
        self._yielded, self._state = state_dict["batches"], self._sampler_state()

    def _sampler_state(self) -> dict[str, Any]:
        stateful = {"sampler": self._owner.sampler, "iterator": self._indices}
        return {
            name: part.state_dict()
            for name, part in stateful.items()
            if hasattr(part, "state_dict") and hasattr(part, "load_state_dict")
        }

    def __iter__(self) -> Self:
        return self
