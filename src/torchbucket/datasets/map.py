"""The map-style data set: objects of a bucket by index, a batch's objects fetched at once."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Unpack

from torch.utils.data import Dataset
from typing_extensions import TypeVar

from torchbucket.config import StoreConfig
from torchbucket.datasets.iteration import Iteration
from torchbucket.datasets.listed import ListedDataset
from torchbucket.datasets.options import shows_options
from torchbucket.datasets.prefetch import open_readers
from torchbucket.datasets.queued_batches import QueuedBatches
from torchbucket.datasets.read_ahead import BatchReadAhead
from torchbucket.datasets.settings import MapOptions, MapSettings, Select
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.transform import apply_transform, read_bytes
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public
from torchbucket.uri import Address

__all__ = ["MapDataset"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=bytes)


@public
@shows_options(MapSettings)
class MapDataset(ListedDataset, Dataset[T_co]):
    """Objects of one bucket by index, for a DataLoader with or without workers and any sampler.

    Make one with ``from_prefix``, ``from_objects`` or ``from_manifest``. The names are listed once, at construction, in
    the process that constructs it; workers share the listing's memory and send no listing request.

    A DataLoader asks for a batch at once (``__getitems__``): all its objects are fetched concurrently, and
    ``transform`` runs on one after the other, in the batch's order, so that random augmentation is reproducible. If one
    fails the rest is dropped and the error names the object; a batch is never shorter than asked for. A worker fetches
    the batches that the loader has asked it for already (``prefetch_factor``) while it makes this one's samples; of a
    ``ReadAheadBatchSampler`` it fetches more, also without workers.

    Works with fork, forkserver and spawn. Pickles without connections and credentials; with spawn and forkserver
    ``transform`` must be picklable. Threads may share it if ``transform`` allows.
    """

    _settings_type = MapSettings

    def __init__(self, source: ObjectSource, transform: Callable[[ObjectReader], T_co], settings: MapSettings) -> None:
        super().__init__(source, transform, settings)
        self._ahead: BatchReadAhead | None = None  # of the process that ``_ahead_pid`` names
        self._ahead_pid: int | None = None

    @classmethod
    def from_prefix(
        cls: type[MapDataset[Any]],
        uri: Address,
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        **options: Unpack[MapOptions],
    ) -> MapDataset[T]:
        """List a prefix and make a data set of all objects whose names begin with it, in byte order of the names."""
        return cls._from_prefix(uri, transform, options, select=select, allow_empty=allow_empty)

    @classmethod
    def from_objects(
        cls: type[MapDataset[Any]],
        uris: Iterable[Address],
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        **options: Unpack[MapOptions],
    ) -> MapDataset[T]:
        """Make a data set of the objects with these addresses, in this order, without a request.

        An object that does not exist raises ``NotFoundError`` when it is read.
        """
        return cls._from_objects(uris, transform, options)

    @classmethod
    def from_manifest(
        cls: type[MapDataset[Any]],
        uri: Address,
        *,
        transform: Callable[[ObjectReader], T] = read_bytes,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        manifest_config: StoreConfig | None = None,
        **options: Unpack[MapOptions],
    ) -> MapDataset[T]:
        """Make a data set of the objects in a manifest (see ``torchbucket manifest``), without a listing request."""
        return cls._from_manifest(
            uri, transform, options, select=select, allow_empty=allow_empty, manifest_config=manifest_config
        )

    def names_digest(self) -> str:
        """A short digest of the objects' names, by which a state finds that it belongs to another data set."""
        return self._source.names_digest()

    def __len__(self) -> int:
        return len(self._source.listing)

    def __getitem__(self, index: int) -> T_co:
        """Read one object and transform it; a negative index counts from the end. Raises as ``__getitems__``."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        """Read the objects of a batch at once and transform them in order; the result is as long as ``indices``.

        A DataLoader's next batches, as far as they are known, are being read meanwhile.

        Args:
            indices: of any length and order, also repeated ones; negative ones count from the end.

        Raises:
            IndexError: an index is out of range; nothing is read.
            StoreError: an object could not be read, after all retries; the error names it.
        """
        positions = [self._position(index) for index in indices]
        ahead = self._read_ahead(indices, positions)
        return list(self._samples(self._readers(positions) if ahead is None else ahead.read(positions)))

    def __iter__(self) -> Iterator[T_co]:
        """Yield every sample in order, the next objects being fetched meanwhile; the same for every rank and worker."""
        # Without this method Python would index until an IndexError, also one that `transform` raised by mistake.
        return Iteration(self._samples(self._readers(range(len(self)))))

    def _samples(self, readers: Generator[ObjectReader, None, None]) -> Generator[T_co, None, None]:
        with closing(readers):
            for reader in readers:
                yield apply_transform(self._transform, reader)

    def _readers(self, positions: Iterable[int]) -> Generator[ObjectReader, None, None]:
        return open_readers(self._source, positions, fetch=self._settings.fetch, budget=self._settings.budget)

    def _read_ahead(self, indices: Sequence[int], positions: Sequence[int]) -> BatchReadAhead | None:
        """What reads a batch of the loader's; None for any other, and in any other thread or way to fetch."""
        if self._settings.fetch != "whole" or threading.current_thread() is not threading.main_thread():
            return None
        if self._ahead is None or self._ahead_pid != os.getpid():
            queued = QueuedBatches.of_this_process(self, self._position)
            self._ahead = BatchReadAhead(self._source, self._settings.budget, queued)
            self._ahead_pid = os.getpid()
        return self._ahead if self._ahead.takes(indices, positions) else None

    def _position(self, index: int) -> int:
        index, count = operator.index(index), len(self)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range for a data set of {count} objects")
        return index + count if index < 0 else index

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_ahead": None, "_ahead_pid": None}

    def __repr__(self) -> str:
        return f"MapDataset({len(self)} objects in {self._source.root})"
