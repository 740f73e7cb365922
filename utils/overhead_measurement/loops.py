"""Passes of a scenario's loop, measured and bare, by turns, each side with a client that stays and has been warmed up.

The measured side is the scenario's own measurement, in a process of its own, with all that belongs to it: the clock
around each fetch, the check of every sample or name, the records, the thread that samples memory and processors. It
stands still while the bare side has its turn: the same client, the same DataLoader and the same order, with nothing
around them but two readings of the clock.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from torch.utils.data import DataLoader, Dataset, IterableDataset

from bucketbench.components import build
from bucketbench.models.none import NoModel
from bucketbench.ranks import Ranks
from bucketbench.records import OperationKind, Phase
from bucketbench.results.raw import read_raw
from bucketbench.scenarios.dataset import measurement as dataset_measurement
from bucketbench.scenarios.dataset.job import DatasetJob
from bucketbench.scenarios.dataset.loading import EpochOrder
from bucketbench.scenarios.dataset.metering import SharedNumber, as_delivered
from bucketbench.scenarios.listing import measurement as listing_measurement
from bucketbench.scenarios.listing.job import ListingJob
from bucketbench.scenarios.recording import Recorder
from bucketbench.statistics.warm_up import MOST_PASSES, is_warm

__all__ = ["Job", "pairs"]

Job = DatasetJob | ListingJob


def pairs(job: Job, directory: Path, count: int) -> list[tuple[float, float]]:
    """The seconds of so many pairs of a measured and a bare pass; each is the first of every other pair.

    Args:
        job: its epochs or passes are set here.
        directory: takes the raw records; it is made.
        count: how many.
    """
    job = replace(job, epochs=count) if isinstance(job, DatasetJob) else replace(job, passes=count)
    take_bare = _bare_epoch(job) if isinstance(job, DatasetJob) else _bare_listing(job)
    bare_s = []
    with _measuring(job, directory) as take_measured:
        for number in range(count):
            if number % 2:
                take_measured()
                bare_s.append(take_bare())
            else:
                bare_s.append(take_bare())
                take_measured()
    operations, _ = read_raw(directory, ended=True)
    epochs = [one for one in operations if one.kind is OperationKind.EPOCH and one.phase is Phase.MEASURE]
    return list(zip((epoch.duration_s for epoch in epochs), bare_s, strict=True))


@contextmanager
def _measuring(job: Job, directory: Path) -> Iterator[Callable[[], None]]:
    """What has a process take a measured pass; between them it is stopped."""
    directory.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measure, args=(job, directory, there))
    process.start()
    there.close()
    assert process.pid is not None
    root = psutil.Process(process.pid)

    def take() -> None:
        root.resume()
        here.send(None)
        here.recv()  # the pass is over
        here.send(None)
        with suppress(EOFError):  # the last pass is followed by none
            here.recv()
            root.suspend()

    here.recv()  # it is warm, and before its first pass
    root.suspend()
    try:
        yield take
    finally:
        root.resume()
        process.join()


class _Gated(Recorder):
    """Waits at each edge of what is measured until it is told to go on."""

    gate: Connection

    def mark_edge(self) -> None:
        super().mark_edge()
        self.gate.send(None)
        self.gate.recv()


def _measure(job: Job, directory: Path, gate: Connection) -> None:
    measure = dataset_measurement.measure if isinstance(job, DatasetJob) else listing_measurement.measure
    with _Gated(directory) as recorder:
        recorder.gate = gate
        found = measure(json.loads(json.dumps(asdict(job))), recorder, Ranks())
    if found.verification.failure is not None:
        raise RuntimeError(found.verification.failure)


def _bare_epoch(job: DatasetJob) -> Callable[[], float]:
    settings = job.loader
    client = build(job.client)
    inner = client.dataset(job.target)
    context = multiprocessing.get_context("fork")
    limit = context.Value("q", job.warmup_samples // settings.num_workers)
    order = None
    dataset: Dataset[Any]
    if not isinstance(inner, IterableDataset):
        order = EpochOrder(
            samples=len(inner),
            batch_size=settings.batch_size,
            workers=settings.num_workers,
            shuffle=settings.shuffle,
            seed=job.seed,
        )
        order.begin(epoch=-1, limit=job.warmup_samples)
        own_sampler = getattr(client, "batch_sampler", None)  # with it the client reads further ahead
        dataset, how = _Map(inner), {"batch_sampler": own_sampler(order) if own_sampler else order}
    else:
        dataset, how = _Iterable(inner, settings.batch_size, limit), {"batch_size": None}
    loader: DataLoader[Any] = DataLoader(
        dataset,
        collate_fn=as_delivered,
        num_workers=settings.num_workers,
        multiprocessing_context=context,
        prefetch_factor=settings.prefetch_factor,
        persistent_workers=settings.persistent_workers,
        **how,
    )

    def take() -> float:
        started_s = time.monotonic()
        for _ in loader:
            pass
        return time.monotonic() - started_s

    rates: list[float] = []
    while len(rates) < MOST_PASSES and not is_warm(rates):
        rates.append(1 / take())
    limit.value = sys.maxsize
    if order is not None:
        order.begin(epoch=0, limit=None)
    return take


class _Map(Dataset[None]):
    """Fetches a batch and drops it in the worker, as ``model=none`` does: what crosses to the loop is a word."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getitems__(self, indices: list[int]) -> None:
        fetch = getattr(self._inner, "__getitems__", None)
        _drop(list(fetch(indices)) if fetch else [self._inner[index] for index in indices])


class _Iterable(IterableDataset[None]):
    """The same of an iterable data set, up to a number of samples a worker."""

    def __init__(self, inner: Any, batch_size: int, limit: SharedNumber) -> None:
        self._inner = inner
        self._batch_size = batch_size
        self._limit = limit

    def __iter__(self) -> Iterator[None]:
        samples = []
        for sample in islice(self._inner, self._limit.value):
            samples.append(sample)
            if len(samples) == self._batch_size:
                yield _drop(samples)
                samples = []
        if samples:
            yield _drop(samples)


def _drop(samples: Sequence[Any]) -> None:
    model = NoModel()
    model.collate([model.decode(data) for _, data in samples])


def _bare_listing(job: ListingJob) -> Callable[[], float]:
    client = build(job.client)

    def take() -> float:
        started_s = time.monotonic()
        for _ in client.names(job.target):
            pass
        return time.monotonic() - started_s

    if job.warmup_prefix is not None:
        for _ in client.names(replace(job.target, prefix=job.warmup_prefix)):
            pass
    return take
