"""The data set over tar shards: their samples as a stream, the shards dealt out to ranks and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Unpack

from typing_extensions import TypeVar

from torchbucket.config import StoreConfig
from torchbucket.datasets.epochs.clock import ClockedPass
from torchbucket.datasets.epochs.epoch import EpochPlan
from torchbucket.datasets.epochs.sharding import Shard
from torchbucket.datasets.options import settings_of, shows_options
from torchbucket.datasets.resumable import ResumableDataset
from torchbucket.datasets.settings import Select
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.tar.iterator import TarIterator
from torchbucket.datasets.tar.names import expand_braces
from torchbucket.datasets.tar.sample import TarSample, sample_dict
from torchbucket.datasets.tar.settings import TarOptions, TarSettings
from torchbucket.datasets.tar.state import TarState
from torchbucket.public import public
from torchbucket.store.protocol import ObjectInfo
from torchbucket.uri import Address

__all__ = ["TarDataset"]

_NO_SHARD: Final = (
    "none of the {seen} objects under it has a name that ends with .tar. Compressed shards (.tar.gz, .tgz) cannot be "
    "read in ranges: decompress them. Shards with other names are found by select"
)

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", default=dict[str, str | bytes])


@public
@shows_options(TarSettings)
class TarDataset(ResumableDataset[T_co, TarState]):
    """The samples in tar shards of one bucket as a stream: each once over all ranks and their DataLoader workers.

    The shards have WebDataset's format. Members that stand one after another and share a name up to its first dot are
    one sample, and what follows the dot, byte for byte, names its fields: ``0001.jpg`` and ``0001.cls`` are the fields
    ``jpg`` and ``cls`` of the sample ``0001``. Directories, links, devices, names without a dot or with nothing before
    it, and what is in or called ``__…__`` at the top, as WebDataset's own files, are left out. A shard that is
    cut, damaged, compressed or sparse raises ``ArchiveError`` with its address and the offset, and so do shards without
    any sample; what they hold is never left out silently.

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

    _equal_shares = False

    def __init__(
        self,
        source: ObjectSource,
        transform: Callable[[TarSample], T_co],
        settings: TarSettings,
        *,
        allow_empty: bool = False,
    ) -> None:
        plan = EpochPlan(
            count=len(source.listing), names=source.names_digest(), shuffle=settings.shuffle, seed=settings.seed
        )
        super().__init__(source, plan, given_rank=settings.given_rank, sharding=settings.sharding, state_type=TarState)
        self._transform = transform
        self._settings = settings
        self._allow_empty = allow_empty

    @classmethod
    def from_prefix(
        cls: type[TarDataset[Any]],
        uri: Address,
        *,
        transform: Callable[[TarSample], T] = sample_dict,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        **options: Unpack[TarOptions],
    ) -> TarDataset[T]:
        """List a prefix and make a data set of the shards whose names begin with it, in byte order of the names.

        Args:
            uri: such as ``s3://bucket/train/``. Plain text: ``s3://bucket/train`` also means ``train-2.tar``.
            transform: makes of a ``TarSample`` what is yielded; the default a dictionary of the members' content by
                extension, with ``__key__`` and ``__url__``.
            select: keeps the objects for which it is true; None keeps those whose names end with ``.tar``. Called at
                construction only.
            allow_empty: accept that there is no shard, or no sample in those that a reader gets.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong.
            NotFoundError: no bucket, or no shard under the prefix.
            StoreError: the listing failed.
        """
        settings = settings_of(TarSettings, options, cls.from_prefix)
        source = ObjectSource.under_prefix(
            uri,
            settings.config,
            select=select or _is_tar,
            none_selected=None if select else _NO_SHARD,
            allow_empty=allow_empty,
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings, allow_empty=allow_empty)

    @classmethod
    def from_objects(
        cls: type[TarDataset[Any]],
        uris: str | Iterable[Address],
        *,
        transform: Callable[[TarSample], T] = sample_dict,  # type: ignore[assignment]  # T, then
        **options: Unpack[TarOptions],
    ) -> TarDataset[T]:
        """Make a data set of the shards with these addresses, in this order, without a request.

        Args:
            uris: a pattern such as ``s3://bucket/train-{000000..000146}.tar`` (see ``expand_braces``), or addresses,
                whose braces are taken literally.
            transform: see ``from_prefix``.
            options: see below.

        Raises:
            ConfigError: no address, one that names no object, or addresses in more than one bucket.
        """
        settings = settings_of(TarSettings, options, cls.from_objects)
        addresses = expand_braces(uris) if isinstance(uris, str) else uris
        source = ObjectSource.of_objects(addresses, settings.config, pinned=settings.pin_versions)
        return cls(source, transform, settings)

    @classmethod
    def from_manifest(
        cls: type[TarDataset[Any]],
        uri: Address,
        *,
        transform: Callable[[TarSample], T] = sample_dict,  # type: ignore[assignment]  # T, then
        select: Select | None = None,
        allow_empty: bool = False,
        manifest_config: StoreConfig | None = None,
        **options: Unpack[TarOptions],
    ) -> TarDataset[T]:
        """Make a data set of the shards that a manifest lists (``torchbucket manifest``), without a listing request.

        Args:
            uri: the manifest's address or local path; the shards are where it says.
            transform: see ``from_prefix``.
            select: see ``from_prefix``.
            allow_empty: see ``from_prefix``.
            manifest_config: how to reach the manifest; None means ``config``.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong, or the versions to pin are not in the manifest.
            ManifestError: the file is no manifest, damaged, or of an unknown version.
            NotFoundError: no manifest, or no shard in it.
            StoreError: the manifest could not be read.
        """
        settings = settings_of(TarSettings, options, cls.from_manifest)
        source = ObjectSource.in_manifest(
            uri,
            settings.config,
            manifest_config=manifest_config,
            select=select or _is_tar,
            none_selected=None if select else _NO_SHARD,
            allow_empty=allow_empty,
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings, allow_empty=allow_empty)

    def _reader(self, shard: Shard, state: TarState, begun: ClockedPass) -> TarIterator[T_co]:
        return TarIterator(
            self._source,
            self._transform,
            self._settings,
            shard,
            state,
            self._clock,
            begun,
            allow_empty=self._allow_empty,
        )

    def __repr__(self) -> str:
        return f"TarDataset({len(self._source.listing)} shards in {self._source.root})"


def _is_tar(info: ObjectInfo) -> bool:
    return info.key.endswith(".tar")
