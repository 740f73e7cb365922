"""The data set over tar shards: their samples as a stream, the shards dealt out to ranks and workers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, Unpack

from typing_extensions import TypeVar

from torchbucket.config import StoreConfig
from torchbucket.datasets.options import shows_options
from torchbucket.datasets.resumable import ResumableDataset
from torchbucket.datasets.settings import Select
from torchbucket.datasets.source import NONE_SELECTED
from torchbucket.datasets.tar.iterator import TarIterator
from torchbucket.datasets.tar.names import expand_braces
from torchbucket.datasets.tar.sample import TarSample, sample_dict
from torchbucket.datasets.tar.settings import TarOptions, TarSettings
from torchbucket.datasets.tar.state import TarState
from torchbucket.errors import ConfigError
from torchbucket.public import public
from torchbucket.store.protocol import ObjectInfo
from torchbucket.uri import Address

__all__ = ["TarDataset"]

_NO_SHARD: Final = (
    "none of the {seen} objects under it has a name that ends with .tar. Compressed shards (.tar.gz, .tgz) cannot be "
    "read in ranges: decompress them. Shards with other names are found by select"
)

_COMPRESSED: Final = re.compile(r"\.(?:tar\.(?:gz|bz2|xz|zst|lz4)|tgz|tbz2|txz|tzst)$")

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
    _settings_type = TarSettings
    _state_type = TarState
    _iterator_type = TarIterator

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
        """List a prefix and make a data set of the shards whose names begin with it, in byte order of the names."""
        return cls._from_prefix(uri, transform, options, select=select, allow_empty=allow_empty)

    @classmethod
    def from_objects(
        cls: type[TarDataset[Any]],
        uris: str | Iterable[Address],
        *,
        transform: Callable[[TarSample], T] = sample_dict,  # type: ignore[assignment]  # T, then
        **options: Unpack[TarOptions],
    ) -> TarDataset[T]:
        """Make a data set of the shards with these addresses, in this order, without a request."""
        return cls._from_objects(expand_braces(uris) if isinstance(uris, str) else uris, transform, options)

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
        """Make a data set of the shards in a manifest (see ``torchbucket manifest``), without a listing request."""
        return cls._from_manifest(
            uri, transform, options, select=select, allow_empty=allow_empty, manifest_config=manifest_config
        )

    @classmethod
    def _selection(cls, select: Select | None) -> tuple[Select, str]:
        return (select, NONE_SELECTED) if select else (_PlainShards(), _NO_SHARD)

    def __repr__(self) -> str:
        return f"TarDataset({len(self._source.listing)} shards in {self._source.root})"


class _PlainShards:
    """Keeps the objects whose names end with ``.tar``; called with each object once.

    Raises:
        ConfigError: there are compressed shards beside them, which would be left out.
    """

    def __init__(self) -> None:
        self._plain: str | None = None
        self._compressed: str | None = None

    def __call__(self, info: ObjectInfo) -> bool:
        is_plain = info.key.endswith(".tar")
        if is_plain:
            self._plain = info.key
        elif _COMPRESSED.search(info.key):
            self._compressed = info.key
        if self._plain is not None and self._compressed is not None:
            raise ConfigError(
                f"{self._compressed!r} is a compressed shard beside {self._plain!r}, and would be left out, since it "
                "cannot be read in ranges: decompress such shards, or say by select which objects to read, such as "
                "lambda info: info.key.endswith('.tar')"
            )
        return is_plain
