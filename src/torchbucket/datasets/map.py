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
from torchbucket.datasets.options import settings_of, shows_options
from torchbucket.datasets.prefetch import check_source, needs_versions, open_readers
from torchbucket.datasets.queued_batches import QueuedBatches
from torchbucket.datasets.read_ahead import BatchReadAhead
from torchbucket.datasets.settings import MapOptions, MapSettings, Select
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.transform import apply_transform, read_bytes
from torchbucket.files.reader import ObjectReader
from torchbucket.listing import KeyColumn, Listing
from torchbucket.public import public
from torchbucket.uri import Address

__all__ = ["MapDataset"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=bytes)


@public
@shows_options(MapSettings)
class MapDataset(Dataset[T_co]):
    """Objects of one bucket by index, for a DataLoader with or without workers and any sampler.

    Make one with ``from_prefix``, ``from_objects`` or ``from_manifest``. The names are listed once, at construction, in
    the process that constructs it; workers share the listing's memory and send no listing request.

    A DataLoader asks for a batch at once (``__getitems__``): all its objects are fetched concurrently, and
    ``transform`` runs on one after the other, in the batch's order, so that random augmentation is reproducible. If one
    fails the rest is dropped and the error names the object; a batch is never shorter than asked for. A worker fetches
    the batches that the loader has asked it for already (``prefetch_factor``) while it makes this one's samples.

    Works with fork, forkserver and spawn. Pickles without connections and credentials; with spawn and forkserver
    ``transform`` must be picklable. Threads may share it if ``transform`` allows.
    """

    def __init__(self, source: ObjectSource, transform: Callable[[ObjectReader], T_co], settings: MapSettings) -> None:
        check_source(settings.fetch, source)
        self._source = source
        self._transform = transform
        self._settings = settings
        self._ahead: BatchReadAhead | None = None  # of this process, if it is a DataLoader's worker
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
        """List a prefix and make a data set of all objects whose names begin with it, in byte order of the names.

        Args:
            uri: such as ``s3://bucket/train/``. Plain text: ``s3://bucket/train`` also means ``training-notes.txt``.
            transform: makes a sample of an open object; the default gives its content as ``bytes``.
            select: keeps the objects for which it is true, such as ``lambda info: info.key.endswith(".jpg")``. Called
                at construction only.
            allow_empty: accept that there is no object.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong.
            NotFoundError: no bucket, or no object under the prefix.
            StoreError: the listing failed.
        """
        settings = settings_of(MapSettings, options, cls.from_prefix)
        source = ObjectSource.under_prefix(
            uri,
            settings.config,
            select=select,
            allow_empty=allow_empty,
            versions=needs_versions(settings.fetch),
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings)

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

        Args:
            uris: at least one, such as ``s3://bucket/train/000.jpg``.
            transform: makes a sample of an open object; the default gives its content as ``bytes``.
            options: see below.

        Raises:
            ConfigError: no address, one that names no object, or addresses in more than one bucket.
        """
        settings = settings_of(MapSettings, options, cls.from_objects)
        source = ObjectSource.of_objects(uris, settings.config, pinned=settings.pin_versions)
        return cls(source, transform, settings)

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
        """Make a data set of the objects that a manifest lists (``torchbucket manifest``), without a listing request.

        Args:
            uri: the manifest's address or local path; the objects are where it says.
            transform: makes a sample of an open object; the default gives its content as ``bytes``.
            select: keeps the objects for which it is true. Called at construction only.
            allow_empty: accept that there is no object.
            manifest_config: how to reach the manifest; None means ``config``.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong, or the versions to pin are not in the manifest.
            ManifestError: the file is no manifest, damaged, or of an unknown version.
            NotFoundError: no manifest, or no object in it.
            StoreError: the manifest could not be read.
        """
        settings = settings_of(MapSettings, options, cls.from_manifest)
        source = ObjectSource.in_manifest(
            uri,
            settings.config,
            manifest_config=manifest_config,
            select=select,
            allow_empty=allow_empty,
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings)

    @property
    def keys(self) -> KeyColumn:
        """The objects' names, by index."""
        return self._source.listing.keys

    @property
    def listing(self) -> Listing:
        """The objects' names and sizes in columns."""
        return self._source.listing

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

        In a DataLoader's worker the next batches, as far as the loader has asked for them, are being read meanwhile.

        Args:
            indices: of any length and order, also repeated ones; negative ones count from the end.

        Raises:
            IndexError: an index is out of range; nothing is read.
            StoreError: an object could not be read, after all retries; the error names it.
        """
        positions = [self._position(index) for index in indices]
        ahead = self._read_ahead(positions)
        return list(self._samples(self._readers(positions) if ahead is None else ahead.read(positions)))

    def __iter__(self) -> Iterator[T_co]:
        """Yield every sample in order, the next objects being fetched meanwhile; the same for every rank and worker."""
        # Without this method Python would index until an IndexError, also one that `transform` raised by mistake.
        return self._samples(self._readers(range(len(self))))

    def _samples(self, readers: Generator[ObjectReader, None, None]) -> Iterator[T_co]:
        with closing(readers):
            for reader in readers:
                yield apply_transform(self._transform, reader)

    def _readers(self, positions: Iterable[int]) -> Generator[ObjectReader, None, None]:
        return open_readers(self._source, positions, fetch=self._settings.fetch, budget=self._settings.budget)

    def _read_ahead(self, positions: Sequence[int]) -> BatchReadAhead | None:
        """What reads a batch of this worker's; None for any other, and in any other process, thread or way to fetch."""
        if self._settings.fetch != "whole" or threading.current_thread() is not threading.main_thread():
            return None
        if self._ahead_pid != os.getpid():
            queued = QueuedBatches.of_this_worker(self, self._position)
            self._ahead = None if queued is None else BatchReadAhead(self._source, self._settings.budget, queued)
            self._ahead_pid = os.getpid()
        return self._ahead if self._ahead is not None and self._ahead.takes(positions) else None

    def _position(self, index: int) -> int:
        index, count = operator.index(index), len(self)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range for a data set of {count} objects")
        return index + count if index < 0 else index

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_ahead": None, "_ahead_pid": None}

    def __repr__(self) -> str:
        return f"MapDataset({len(self)} objects in {self._source.root})"
