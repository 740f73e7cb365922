"""The data set over tar shards: their samples as a stream, the shards dealt out to ranks and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, Unpack, overload

from torch.utils.data import IterableDataset as TorchIterableDataset
from torch.utils.data import get_worker_info

from torchbucket.config import StoreConfig
from torchbucket.datasets.clock import EpochClock
from torchbucket.datasets.epoch import EpochPlan
from torchbucket.datasets.handle import SampleIterator
from torchbucket.datasets.resume import EpochState, StateDict
from torchbucket.datasets.settings import Select
from torchbucket.datasets.sharding import Rank, Shard
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.tar.names import expand_braces
from torchbucket.datasets.tar.sample import TarSample, sample_dict
from torchbucket.datasets.tar.samples import TarSamples
from torchbucket.datasets.tar.settings import TarOptions, TarSettings
from torchbucket.datasets.tar.state import TarState
from torchbucket.errors import ConfigError
from torchbucket.listing import KeyColumn, Listing
from torchbucket.store.protocol import ObjectInfo

__all__ = ["TarDataset"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class TarDataset(TorchIterableDataset[T_co]):
    """The samples in tar shards of one bucket as a stream: each once over all ranks and their DataLoader workers.

    The shards have WebDataset's format. Members that stand one after another and share a name up to its first dot are
    one sample, and what follows the dot, byte for byte, names its fields: ``0001.jpg`` and ``0001.cls`` are the fields
    ``jpg`` and ``cls`` of the sample ``0001``. Directories, links, devices, names without a dot or with nothing before
    it, and WebDataset's own ``__…__`` are left out. A shard that is cut, damaged, compressed or sparse raises
    ``ArchiveError`` with its address and the offset; what it holds is never left out silently.

    Make one with ``from_prefix``, ``from_objects`` or ``from_manifest``. Whole shards are dealt out, to the ranks in
    turn and a rank's to its workers in turn, as ``IterableDataset`` deals out objects; so have at least as many shards
    as readers, and of about the same size. How many samples a reader gets is not known before it has read them, so
    there is no ``even``. With ``shuffle`` the shards are permuted, with ``shuffle_buffer`` samples are, as the seed and
    the epoch decide.

    Epochs, ``set_epoch``, ``state_dict`` and ``load_state_dict`` are those of ``IterableDataset``. A state is exact
    also in the middle of a shard and with a shuffle buffer, whose samples it keeps the places of. With
    ``torchbucket.merge_states`` another number of ranks and workers goes on.

    Works with fork, forkserver and spawn, persistent workers and pinned memory. Pickles without connections and
    credentials; with spawn and forkserver ``transform`` must be picklable. Iterators may run in several threads, each
    yielding a whole share.
    """

    def __init__(self, source: ObjectSource, transform: Callable[[TarSample], T_co], settings: TarSettings) -> None:
        self._source = source
        self._transform = transform
        self._settings = settings
        self._plan = EpochPlan(
            count=len(source.listing), names=source.names_digest(), shuffle=settings.shuffle, seed=settings.seed
        )
        self._clock = EpochClock()
        self._inherited_rank: Rank | None = None
        self._loaded: TarState | None = None  # applies while the clock says so
        self._workers_own: TarState | None = None  # what the next iterator of this worker takes up
        self._latest: TarSamples[T_co] | None = None

    @overload
    @classmethod
    def from_prefix(
        cls, uri: str, *, select: Select | None = ..., allow_empty: bool = ..., **options: Unpack[TarOptions]
    ) -> TarDataset[dict[str, str | bytes]]: ...

    @overload
    @classmethod
    def from_prefix(
        cls,
        uri: str,
        *,
        transform: Callable[[TarSample], T],
        select: Select | None = ...,
        allow_empty: bool = ...,
        **options: Unpack[TarOptions],
    ) -> TarDataset[T]: ...

    @classmethod
    def from_prefix(
        cls,
        uri: str,
        *,
        transform: Callable[[TarSample], Any] = sample_dict,
        select: Select | None = None,
        allow_empty: bool = False,
        **options: Unpack[TarOptions],
    ) -> TarDataset[Any]:
        """List a prefix and make a data set of the shards whose names begin with it, in byte order of the names.

        Args:
            uri: such as ``s3://bucket/train/``. Plain text: ``s3://bucket/train`` also means ``train-2.tar``.
            transform: makes of a ``TarSample`` what is yielded; the default a dictionary of the members' content by
                extension, with ``__key__`` and ``__url__``.
            select: keeps the objects for which it is true; None keeps those whose names end with ``.tar``. Called at
                construction only.
            allow_empty: accept that there is no shard.
            options: the fields of ``TarSettings``.

        Raises:
            ConfigError: the address or a setting is wrong.
            NotFoundError: no bucket, or no shard under the prefix.
            StoreError: the listing failed.
        """
        settings = TarSettings(**options)
        source = ObjectSource.under_prefix(
            uri,
            settings.config,
            select=select or _is_tar,
            allow_empty=allow_empty,
            versions=settings.pin_versions,
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings)

    @overload
    @classmethod
    def from_objects(
        cls, uris: str | Iterable[str], **options: Unpack[TarOptions]
    ) -> TarDataset[dict[str, str | bytes]]: ...

    @overload
    @classmethod
    def from_objects(
        cls, uris: str | Iterable[str], *, transform: Callable[[TarSample], T], **options: Unpack[TarOptions]
    ) -> TarDataset[T]: ...

    @classmethod
    def from_objects(
        cls,
        uris: str | Iterable[str],
        *,
        transform: Callable[[TarSample], Any] = sample_dict,
        **options: Unpack[TarOptions],
    ) -> TarDataset[Any]:
        """Make a data set of the shards with these addresses, in this order, without a request.

        Args:
            uris: a pattern such as ``s3://bucket/train-{000000..000146}.tar`` (see ``expand_braces``), or addresses,
                whose braces are taken literally.
            transform: see ``from_prefix``.
            options: see ``from_prefix``.

        Raises:
            ConfigError: no address, one that names no object, or addresses in more than one bucket.
        """
        settings = TarSettings(**options)
        if settings.pin_versions:
            raise ConfigError(
                "from_objects knows no versions to pin: make the data set by from_prefix or from_manifest"
            )
        addresses = expand_braces(uris) if isinstance(uris, str) else uris
        return cls(ObjectSource.of_objects(addresses, settings.config), transform, settings)

    @overload
    @classmethod
    def from_manifest(
        cls,
        uri: str,
        *,
        select: Select | None = ...,
        allow_empty: bool = ...,
        manifest_config: StoreConfig | None = ...,
        **options: Unpack[TarOptions],
    ) -> TarDataset[dict[str, str | bytes]]: ...

    @overload
    @classmethod
    def from_manifest(
        cls,
        uri: str,
        *,
        transform: Callable[[TarSample], T],
        select: Select | None = ...,
        allow_empty: bool = ...,
        manifest_config: StoreConfig | None = ...,
        **options: Unpack[TarOptions],
    ) -> TarDataset[T]: ...

    @classmethod
    def from_manifest(
        cls,
        uri: str,
        *,
        transform: Callable[[TarSample], Any] = sample_dict,
        select: Select | None = None,
        allow_empty: bool = False,
        manifest_config: StoreConfig | None = None,
        **options: Unpack[TarOptions],
    ) -> TarDataset[Any]:
        """Make a data set of the shards that a manifest lists (``torchbucket manifest``), without a listing request.

        Args:
            uri: the manifest's address or local path; the shards are where it says.
            transform: see ``from_prefix``.
            select: see ``from_prefix``.
            allow_empty: see ``from_prefix``.
            manifest_config: how to reach the manifest; None means ``config``.
            options: the fields of ``TarSettings``.

        Raises:
            ConfigError: the address or a setting is wrong, or the versions to pin are not in the manifest.
            ManifestError: the file is no manifest, damaged, or of an unknown version.
            NotFoundError: no manifest, or no shard in it.
            StoreError: the manifest could not be read.
        """
        settings = TarSettings(**options)
        source = ObjectSource.in_manifest(
            uri,
            settings.config,
            manifest_config=manifest_config,
            select=select or _is_tar,
            allow_empty=allow_empty,
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings)

    @property
    def keys(self) -> KeyColumn:
        """The shards' names over all ranks and workers, in the listing's order."""
        return self._source.listing.keys

    @property
    def listing(self) -> Listing:
        """The shards' names and sizes in columns, over all ranks and workers."""
        return self._source.listing

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next pass reads, from 0."""
        return self._clock.epoch

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch of the next pass, on every rank alike; running workers that persist learn of it too.

        Passes that have begun stay what they are. A state that was loaded keeps applying if it is of that epoch.
        """
        self._clock.set(epoch)
        if self._latest is not None and self._latest.epoch != epoch:
            self._latest = None

    def state_dict(self) -> StateDict:
        """How far the latest iterator of this process got; before any, how far the next one's epoch is.

        A plain dictionary of numbers, texts and lists: some hundred bytes, and 40 for each sample in a shuffle buffer.

        Raises:
            ConfigError: a DataLoader's workers are in the middle of a pass: what of their samples was consumed is known
                to torchdata's ``StatefulDataLoader``, whose ``state_dict`` has it.
        """
        if self._latest is not None:
            return self._latest.state_dict()
        if get_worker_info() is None and self._clock.in_workers:
            raise ConfigError(
                "state_dict of a data set that a DataLoader's workers are reading, or left early: this process does "
                "not know what they consumed. Take the state of torchdata's StatefulDataLoader"
            )
        return self._beginning(self._clock.epoch, resuming=self._clock.resuming).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next iteration yields the rest of its epoch, and the one after it the next epoch.

        Load it before a loader is made. A state of one rank and worker is for the same ones, one from
        ``torchbucket.merge_states`` for any.

        Raises:
            ConfigError: it is no state, damaged, or of a data set with other shards or another order.
        """
        loaded = TarState.from_dict(state, self._plan)
        if get_worker_info() is not None:
            self._workers_own = loaded
            return
        if loaded.is_finished():
            loaded = self._beginning(loaded.shards.epoch + 1, resuming=False)
        loaded.shards.opened()  # a state that contradicts itself is refused here, not in a worker
        self._loaded = loaded
        self._latest = None
        self._clock.resume(loaded.shards.epoch)

    def __iter__(self) -> Iterator[T_co]:
        """Begin to yield the calling process' share; reads begin with the first ``next``."""
        shard = Shard.current(given=self._settings.given_rank, inherited=self._inherited_rank)
        own, self._workers_own = self._workers_own, None
        begun = self._clock.begin()
        state = self._beginning(begun.epoch, resuming=begun.resuming)
        samples = TarSamples(self._source, self._transform, self._settings, shard, state, self._clock, begun)
        if own is not None:
            samples.take_up(own)
        self._latest = samples
        return SampleIterator(samples)

    def _beginning(self, epoch: int, *, resuming: bool) -> TarState:
        """Where a pass of an epoch begins."""
        if self._loaded is not None and resuming and self._loaded.shards.epoch == epoch:
            return self._loaded
        return TarState(shards=EpochState(plan=self._plan, epoch=epoch))

    def __getstate__(self) -> dict[str, object]:
        # A spawned worker has no torch.distributed of its own: the data set tells it the rank of who sent it.
        return self.__dict__ | {"_inherited_rank": Rank.initialised() or self._inherited_rank, "_latest": None}

    def __repr__(self) -> str:
        return f"TarDataset({len(self._source.listing)} shards in {self._source.root})"


def _is_tar(info: ObjectInfo) -> bool:
    return info.key.endswith(".tar")
