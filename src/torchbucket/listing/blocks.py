"""Listings made of blocks: the columns of one page each, joined when all are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from os.path import commonprefix
from typing import Final

import numpy as np
import numpy.typing as npt

from torchbucket.listing.key_column import KeyColumn
from torchbucket.listing.version_column import VersionColumn
from torchbucket.store.protocol import ObjectInfo
from torchbucket.uri import key_bytes

__all__ = ["UNKNOWN_SIZE", "Block", "join_keys", "join_versions"]

UNKNOWN_SIZE = -1

# Keys that share one head. Source: a page's; more share less, fewer have more heads.
_BLOCK_OBJECTS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """The columns of some objects that follow one another in a listing.

    Args:
        head: the bytes that all keys begin with.
        blob: what follows the head in every key, one after another.
        lengths: uint32, how many bytes of the blob each key has.
        sizes_bytes: int64, ``UNKNOWN_SIZE`` where it is not known.
        versions: None where they were not kept, or no object has one.
    """

    head: bytes
    blob: bytes
    lengths: npt.NDArray[np.uint32]
    sizes_bytes: npt.NDArray[np.int64]
    versions: VersionColumn | None

    @classmethod
    def of(cls, keys: Sequence[str], sizes_bytes: Sequence[int], versions: Sequence[str | None] | None = None) -> Block:
        """Take a page apart; it has at least one key.

        Raises:
            ConfigError: a key is not valid Unicode text.
        """
        # Plain text: common characters are meant, and common bytes follow from them.
        shared = commonprefix((min(keys), max(keys)))  # noqa: RUF071  # texts, by characters
        cut = len(shared)
        parts = [key[cut:] for key in keys]
        text = "".join(parts)
        try:
            blob = text.encode()
        except UnicodeEncodeError:
            for key in keys:
                key_bytes(key)  # Says which one it is.
            raise
        # In plain ASCII a character is a byte, and counting characters is ten times as fast as encoding each name.
        lengths = map(len, parts) if len(blob) == len(text) else (len(part.encode()) for part in parts)
        return cls(
            head=key_bytes(shared),
            blob=blob,
            lengths=np.fromiter(lengths, np.uint32, len(parts)),
            sizes_bytes=np.array(sizes_bytes, np.int64),
            versions=None if versions is None else VersionColumn.of(versions),
        )

    @classmethod
    def of_infos(cls, infos: Iterable[ObjectInfo], *, versions: bool) -> Iterator[Block]:
        """Yield blocks of up to a thousand objects, with their versions where asked for."""
        remaining = iter(infos)
        while batch := list(islice(remaining, _BLOCK_OBJECTS)):
            yield cls.of(
                [info.key for info in batch],
                [info.size_bytes for info in batch],
                [info.version for info in batch] if versions else None,
            )

    def __len__(self) -> int:
        return len(self.lengths)


def join_keys(blocks: Sequence[Block]) -> KeyColumn:
    """The keys of blocks, in order."""
    blob = b"".join(block.blob for block in blocks)
    starts = list(accumulate(map(len, blocks), initial=0))
    # Four bytes a name hold the offsets up to 4 GiB of them.
    offsets: npt.NDArray[np.integer] = np.zeros(starts[-1] + 1, np.uint32 if len(blob) < 1 << 32 else np.int64)
    for block, start in zip(blocks, starts[:-1], strict=True):
        offsets[start + 1 : start + 1 + len(block)] = offsets[start] + block.lengths.cumsum(dtype=offsets.dtype)
    return KeyColumn([block.head for block in blocks], starts[:-1], blob, offsets)


def join_versions(blocks: Sequence[Block]) -> VersionColumn | None:
    """The versions of blocks, in order; None where no object has one."""
    if all(block.versions is None for block in blocks):
        return None
    return VersionColumn.joined(
        [VersionColumn.none(len(block)) if block.versions is None else block.versions for block in blocks]
    )
