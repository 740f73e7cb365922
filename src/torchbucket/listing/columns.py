"""Names, sizes and versions of many objects in columns: a few flat arrays, however many objects there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from torchbucket.listing.blocks import UNKNOWN_SIZE, Block, join_keys, join_versions
from torchbucket.listing.key_column import KeyColumn
from torchbucket.listing.version_column import VersionColumn
from torchbucket.public import public_in
from torchbucket.store.protocol import ObjectInfo

__all__ = ["UNKNOWN_SIZE", "KeyColumn", "Listing", "VersionColumn"]


@public_in("torchbucket.listing")
class Listing:
    """Names and sizes of objects, in order, and their versions where asked for. Immutable; shared by forked processes
    and pickled as flat arrays.

    An object takes the bytes of its key that those of its page do not share, four (eight, in a listing with over 4 GiB
    of them) for the offset and eight for the size; a Python object for each would take more than ten times as much, and
    make every forked worker copy what it touches.

    Args:
        keys: the names.
        sizes_bytes: int64, one for each key; ``UNKNOWN_SIZE`` where it is not known.
        versions: one for each key; None where they were not kept.
    """

    __slots__ = ("keys", "sizes_bytes", "versions")

    def __init__(
        self, keys: KeyColumn, sizes_bytes: npt.NDArray[np.int64], versions: VersionColumn | None = None
    ) -> None:
        if len(keys) != len(sizes_bytes):
            raise ValueError(f"a listing needs one size for each key; got {len(keys)} keys, {len(sizes_bytes)} sizes")
        if versions is not None and len(keys) != len(versions):
            raise ValueError(
                f"a listing needs one version for each key; got {len(keys)} keys, {len(versions)} versions"
            )
        self.keys = keys
        self.sizes_bytes = sizes_bytes
        self.versions = versions

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Listing:
        """Make the columns of blocks that follow one another."""
        sizes = np.concatenate([np.zeros(0, np.int64), *(block.sizes_bytes for block in blocks)])
        return cls(join_keys(blocks), sizes, join_versions(blocks))

    @classmethod
    def collect(cls, objects: Iterable[tuple[str, int | None]]) -> Listing:
        """Make the columns of keys and sizes as they come."""
        infos = (
            ObjectInfo(key=key, size_bytes=UNKNOWN_SIZE if size_bytes is None else size_bytes, version=None)
            for key, size_bytes in objects
        )
        return cls.joined([*Block.of_infos(infos, versions=False)])

    @classmethod
    def of_keys(cls, keys: Sequence[str]) -> Listing:
        """Make the columns of keys whose sizes are not known."""
        return cls.collect((key, None) for key in keys)

    def selected(self, select: Callable[[ObjectInfo], bool]) -> Listing:
        """The objects for which ``select`` is true, in their order, with their sizes and versions.

        Args:
            select: called once for each, in order, in this thread. Of an unknown size it is told ``UNKNOWN_SIZE``;
                ``last_modified_s`` is None: listings do not keep it.
        """
        infos = (
            ObjectInfo(key=key, size_bytes=int(size_bytes), version=self.version(position))
            for position, (key, size_bytes) in enumerate(zip(self.keys, self.sizes_bytes, strict=True))
        )
        return self.joined([*Block.of_infos(filter(select, infos), versions=self.versions is not None)])

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the columns take."""
        return self.keys.nbytes + self.sizes_bytes.nbytes + (0 if self.versions is None else self.versions.nbytes)

    def size_bytes(self, position: int) -> int | None:
        """The size of one object in bytes; None where it is not known."""
        size = int(self.sizes_bytes[position])
        return None if size == UNKNOWN_SIZE else size

    def version(self, position: int) -> str | None:
        """The version of one object; None where versions were not kept, or the server gave none."""
        return None if self.versions is None else self.versions[position]

    def __len__(self) -> int:
        return len(self.sizes_bytes)

    def __repr__(self) -> str:
        return f"Listing({len(self)} objects, {self.nbytes} bytes of memory)"
