"""A client's data set with a clock around each fetch: what a worker sends back, and who makes it.

Every batch carries, beside what the model wants, a few numbers: when its fetch began and ended, what arrived, and
which samples it held. So the records of all workers reach the main process in order, without a file or a queue of
their own; they take some hundred bytes a batch.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from bucketbench.models.protocol import Model
from bucketbench.reasons import reason_of
from bucketbench.records import OperationKind
from bucketbench.scenarios.dataset.rotation import Rotation
from bucketbench.scenarios.dataset.sample_checks import SampleCheck

__all__ = [
    "MAIN_PROCESS",
    "Checking",
    "MeteredBatch",
    "MeteredIterableDataset",
    "MeteredMapDataset",
    "SharedNumber",
    "Timing",
    "as_delivered",
]

MAIN_PROCESS = -1
"""The ``worker`` of a record made in the measured process itself."""

_NOTE_CHARACTERS = 300  # of what a client raised: some of them are told in a row


class SharedNumber(Protocol):
    """A number that the main process sets before a pass, and the workers read in it."""

    value: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Checking:
    """How what arrives is compared with the list of samples.

    Args:
        content: compares one sample.
        rotation: which samples are compared whole.
        turn: of the rotation, in this pass.
    """

    content: SampleCheck
    rotation: Rotation
    turn: SharedNumber


@dataclass(slots=True)
class Timing:
    """One operation as the worker timed it; the main process knows which epoch and phase it belongs to."""

    kind: OperationKind
    worker: int
    started_s: float
    ended_s: float
    samples: int = 0
    content_bytes: int = 0
    errors: int = 0
    error: str | None = None


@dataclass(slots=True)
class MeteredBatch:
    """What crosses from a worker to the main process for one batch."""

    payload: Any = None  # what the model's step takes, None where no sample of the batch could be decoded
    timings: list[Timing] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    mismatched: int = 0
    errors: int = 0
    undecodable: int = 0
    no_samples: int = 0
    by_size: int = 0
    notes: list[str] = field(default_factory=list)

    def pin_memory(self) -> MeteredBatch:
        """Pin the payload's tensors; the DataLoader calls this where ``pin_memory`` is set."""
        if isinstance(self.payload, tuple | list):
            self.payload = type(self.payload)(_pinned(item) for item in self.payload)
        else:
            self.payload = _pinned(self.payload)
        return self


def as_delivered(batch: Any) -> Any:
    """Hand the batch on as it is: a ``collate_fn`` that can be pickled."""
    return batch


class _Metering:
    """What both styles of data set share: checking, decoding and packing a batch that was fetched."""

    def __init__(self, kind: OperationKind, *, checking: Checking, model: Model) -> None:
        self._kind = kind
        self._checking = checking
        self._model = model
        self._has_told = False

    def pack(
        self, samples: Sequence[Any], *, started_s: float, ended_s: float, failures: Sequence[BaseException], lost: int
    ) -> MeteredBatch:
        """Check, decode and collate one fetched batch.

        Args:
            samples: what arrived, as the client delivers its samples.
            started_s: when the fetch began.
            ended_s: when it ended.
            failures: what the client raised.
            lost: number of samples that these failures cost.
        """
        notes = [reason_of(failure, characters=_NOTE_CHARACTERS) for failure in failures]
        batch = MeteredBatch(errors=lost, notes=notes)
        for failure in failures:
            self._tell(failure)
        whole: list[Any] = []
        content_bytes = 0
        received = self._checking.content.received
        due = self._checking.rotation.due(self._checking.turn.value)
        for sample in samples:
            found = received(sample, due)
            if found is None:
                batch.no_samples += 1
                continue
            if isinstance(found, str):
                batch.mismatched += 1
                batch.notes.append(found)
                continue
            batch.positions.append(found.position)
            content_bytes += found.size_bytes
            batch.by_size += not found.whole
            whole.append(found.content)
        fetch = Timing(
            kind=self._kind,
            worker=_worker(),
            started_s=started_s,
            ended_s=ended_s,
            samples=len(whole),
            content_bytes=content_bytes,
            errors=lost + batch.mismatched,
            error=batch.notes[0] if batch.notes else None,
        )
        batch.timings.append(fetch)
        self._decode(batch, whole)
        return batch

    def _tell(self, failure: BaseException) -> None:
        """Write the first failure of a worker whole into benchmark.log."""
        if not self._has_told:
            self._has_told = True
            with contextlib.suppress(OSError):  # a full disk must not cost the batch
                traceback.print_exception(failure)

    def _decode(self, batch: MeteredBatch, whole: list[Any]) -> None:
        started_s = time.monotonic()
        decoded: list[Any] = []
        undecodable: list[str] = []
        for data in whole:
            try:
                decoded.append(self._model.decode(data))
            except Exception as error:  # noqa: BLE001 - whatever a model raises is counted against the sample
                self._tell(error)
                undecodable.append(f"decoding failed: {reason_of(error, characters=_NOTE_CHARACTERS)}")
        batch.payload = self._model.collate(decoded) if decoded else None
        timing = Timing(
            kind=OperationKind.DECODE,
            worker=_worker(),
            started_s=started_s,
            ended_s=time.monotonic(),
            samples=len(decoded),
            errors=len(undecodable),
            error=undecodable[0] if undecodable else None,
        )
        batch.timings.append(timing)
        # The bytes did arrive, so they stay counted, but the job cannot be called a success.
        batch.undecodable = len(undecodable)
        batch.notes.extend(undecodable)


class MeteredMapDataset(Dataset[MeteredBatch]):
    """A client's map data set that delivers whole metered batches.

    A sample that raises is recorded, and the rest of its batch and of the epoch goes on. Where the client fetches a
    batch at once (``__getitems__``) and raises, nothing of the batch is known to have arrived: all of it is lost.
    """

    def __init__(self, inner: Any, *, checking: Checking, model: Model) -> None:
        """Meter ``inner``, whose samples ``model`` decodes."""
        self._inner = inner
        self._metering = _Metering(OperationKind.FETCH, checking=checking, model=model)

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: int) -> MeteredBatch:
        return self.__getitems__([index])

    def __getitems__(self, indices: list[int]) -> MeteredBatch:
        fetch_batch = getattr(self._inner, "__getitems__", None)
        samples: list[Any] = []
        failures: list[BaseException] = []
        lost = 0
        started_s = time.monotonic()
        if fetch_batch is not None:
            try:
                samples = list(fetch_batch(indices))
            except Exception as error:  # noqa: BLE001 - whatever a client raises is counted against it
                failures, lost = [error], len(indices)
        else:
            for index in indices:
                try:
                    samples.append(self._inner[index])
                except Exception as error:  # noqa: BLE001 - as above
                    failures.append(error)
                    lost += 1
        ended_s = time.monotonic()
        return self._metering.pack(samples, started_s=started_s, ended_s=ended_s, failures=failures, lost=lost)


class MeteredIterableDataset(IterableDataset[MeteredBatch]):
    """A client's iterable data set, cut into metered batches.

    An iterator that raises is at its end: what it had delivered of its batch counts, one sample is an error, and those
    that never came are found missing at the end of the epoch.
    """

    def __init__(self, inner: Any, *, checking: Checking, model: Model, batch_size: int, limit: SharedNumber) -> None:
        """Meter ``inner`` in batches of ``batch_size``.

        ``limit``, read when an iteration starts, is how many samples it may deliver, negative for all of them.
        """
        self._inner = inner
        self._metering = _Metering(OperationKind.NEXT, checking=checking, model=model)
        self._batch_size = batch_size
        self._limit = limit

    def __iter__(self) -> Iterator[MeteredBatch]:
        left = self._share_of_limit()
        iterator: Iterator[Any] | None = None
        try:
            while left is None or left > 0:
                wanted = self._batch_size if left is None else min(self._batch_size, left)
                samples: list[Any] = []
                failures: list[BaseException] = []
                ended = False
                started_s = time.monotonic()
                try:
                    if iterator is None:
                        iterator = iter(self._inner)
                    while len(samples) < wanted:
                        samples.append(next(iterator))
                except StopIteration:
                    ended = True
                except Exception as error:  # noqa: BLE001 - whatever a client raises is counted against it
                    failures.append(error)
                    ended = True
                ended_s = time.monotonic()
                if samples or failures:
                    yield self._metering.pack(
                        samples, started_s=started_s, ended_s=ended_s, failures=failures, lost=len(failures)
                    )
                if ended:
                    return
                left = None if left is None else left - len(samples)
        finally:
            # A pass that was cut short must leave no download of the client's behind it.
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    def _share_of_limit(self) -> int | None:
        limit = self._limit.value
        if limit < 0:
            return None
        info = get_worker_info()
        workers = 1 if info is None else info.num_workers
        return -(-limit // workers)


def _worker() -> int:
    info = get_worker_info()
    return MAIN_PROCESS if info is None else int(info.id)


def _pinned(item: Any) -> Any:
    pin = getattr(item, "pin_memory", None)
    return item if pin is None else pin()
