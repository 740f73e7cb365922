"""The DataLoader of a job: its start method, the order of its samples, and a first pass that can be cut short."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from torch.utils.data import DataLoader, IterableDataset

from bucketbench.models.protocol import Model
from bucketbench.ranks import Ranks
from bucketbench.scenarios.dataset.job import LoaderSettings
from bucketbench.scenarios.dataset.metering import (
    Checking,
    MeteredBatch,
    MeteredIterableDataset,
    MeteredMapDataset,
    SharedNumber,
    as_delivered,
)
from bucketbench.scenarios.dataset.rotation import EVERY_SAMPLE, Rotation
from bucketbench.scenarios.dataset.sample_checks import SampleCheck

__all__ = ["EpochOrder", "JobLoader", "start_fork_server", "start_method_of"]

_NO_LIMIT: Final = -1


def start_method_of(settings: LoaderSettings, client: Any) -> str:
    """The start method of the workers.

    ``auto`` is fork, which is what DataLoader users on Linux get by default up to Python 3.13 and what starts fastest,
    unless the client's class says ``fork_safe = False``: then it is forkserver. ``none`` without workers.
    """
    if settings.num_workers == 0:
        return "none"
    if settings.start_method != "auto":
        return settings.start_method
    return "fork" if getattr(client, "fork_safe", True) else "forkserver"


def start_fork_server() -> None:
    """Start the process that workers are forked from, and return when it has loaded torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", __name__])
    worker = context.Process(target=_do_nothing)
    worker.start()
    worker.join()


def _do_nothing() -> None:
    """A worker that ends: the first one waits until the fork server is ready."""


class EpochOrder:
    """Batches of indices of a map data set: in order, or shuffled by a seed, differently each epoch.

    Where there are several ranks, each takes every so many-th batch, from its own number on.

    It runs in the main process, so that ``begin`` takes effect on the next iteration of persistent workers too.
    """

    def __init__(
        self, *, samples: int, batch_size: int, workers: int, shuffle: bool, seed: int, ranks: Ranks | None = None
    ) -> None:
        self._ranks = ranks or Ranks()
        self._samples = samples
        self._batch_size = batch_size
        self._workers = max(workers, 1)
        self._shuffle = shuffle
        self._seed = seed
        self._epoch = 0
        self._limit: int | None = None

    def begin(self, *, epoch: int, limit: int | None) -> None:
        """Choose the order of the next iteration, and how many samples of it there are (None for all)."""
        self._epoch = epoch
        self._limit = limit

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self._samples))
        if self._shuffle:
            # A string seeds by its bytes, so that neighbouring seeds and epochs share nothing.
            random.Random(f"{self._seed}/{self._epoch}").shuffle(order)  # noqa: S311 - an order, not a secret
        size = self._batch_size
        if self._limit is not None:
            order = order[: self._limit]
            # A short pass is for all workers: without this the first batch, to the first worker, might be all of it.
            size = max(min(size, -(-len(order) // (self._workers * self._ranks.world_size))), 1)
        for start in range(self._ranks.rank * size, len(order), self._ranks.world_size * size):
            yield order[start : start + size]

    def __len__(self) -> int:
        batches = -(-self._samples // self._batch_size)
        return len(range(self._ranks.rank, batches, self._ranks.world_size))


class _OwnNumber:
    """The number of a data set that is iterated in this process."""

    def __init__(self, value: int) -> None:
        self.value = value


class JobLoader:
    """A DataLoader over a client's data set, iterated once for the warm-up and once for each epoch.

    With ``persistent_workers`` the same worker processes serve all passes, connections and caches included; without,
    each pass starts its own, within its time.
    """

    def __init__(
        self,
        inner: Any,
        *,
        settings: LoaderSettings,
        start_method: str,
        content: SampleCheck,
        rotation: Rotation,
        model: Model,
        seed: int,
        ranks: Ranks,
        batch_sampler: Callable[[EpochOrder], Any] | None = None,
    ) -> None:
        """Load ``inner``, a map data set (``__getitem__`` and ``__len__``) or an iterable one.

        ``batch_sampler`` is the client's own, if it has one (see ``DatasetClient``).

        Raises:
            TypeError: it is neither.
        """
        self.iterable = isinstance(inner, IterableDataset) or not hasattr(inner, "__getitem__")
        if self.iterable and not hasattr(inner, "__iter__"):
            raise TypeError(f"a client's dataset() returned a {type(inner).__name__}, expected a torch data set")
        self._ranks = ranks
        self._order: EpochOrder | None = None
        self._rotation = rotation
        self._limit: SharedNumber = _OwnNumber(_NO_LIMIT)
        self._turn: SharedNumber = _OwnNumber(EVERY_SAMPLE)
        workers: dict[str, Any] = {"num_workers": settings.num_workers, "pin_memory": settings.pin_memory}
        if settings.num_workers > 0:
            context = multiprocessing.get_context(start_method)
            # Without a lock: they are set between passes, and read once a batch.
            self._limit, self._turn = (
                context.Value("q", _NO_LIMIT, lock=False),
                context.Value("q", EVERY_SAMPLE, lock=False),
            )
            workers |= {
                "multiprocessing_context": context,
                "prefetch_factor": settings.prefetch_factor,
                "persistent_workers": settings.persistent_workers,
            }
        checking = Checking(content=content, rotation=rotation, turn=self._turn)
        dataset: Any
        if self.iterable:
            dataset = MeteredIterableDataset(
                inner, checking=checking, model=model, batch_size=settings.batch_size, limit=self._limit
            )
            order: dict[str, Any] = {"batch_size": None}
        else:
            dataset = MeteredMapDataset(inner, checking=checking, model=model)
            self._order = EpochOrder(
                samples=len(inner),
                batch_size=settings.batch_size,
                workers=settings.num_workers,
                shuffle=settings.shuffle,
                seed=seed,
                ranks=ranks,
            )
            order = {"batch_sampler": batch_sampler(self._order) if batch_sampler else self._order}
        self._loader: DataLoader[Any] = DataLoader(dataset, collate_fn=as_delivered, **order, **workers)

    def batches(self, *, epoch: int, limit: int | None = None, whole: bool) -> Iterator[MeteredBatch]:
        """The batches of one pass.

        Args:
            epoch: its number.
            limit: ends it after about so many samples, shared by ranks and workers; None for no end.
            whole: whether every sample is compared whole; otherwise those whose turn it is in this epoch.
        """
        self._turn.value = EVERY_SAMPLE if whole else self._rotation.turn(epoch)
        self._limit.value = _NO_LIMIT if limit is None else -(-limit // self._ranks.world_size)
        if self._order is not None:
            self._order.begin(epoch=epoch, limit=limit)
        return iter(self._loader)
