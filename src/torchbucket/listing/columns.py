"""Names and sizes of a data set's objects in columns: a few flat arrays, however many objects there are."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import overload

import numpy as np
import numpy.typing as npt

from torchbucket.uri import key_bytes

__all__ = ["UNKNOWN_SIZE", "KeyColumn", "Listing"]

UNKNOWN_SIZE = -1


class KeyColumn(Sequence[str]):
    """The keys of a listing, each decoded when it is asked for; reads like a tuple of texts. Immutable.

    Args:
        prefix: the bytes that all keys begin with, held once.
        blob: what follows the prefix in every key, one after another.
        offsets: where each key's part begins in the blob, and the blob's length at the end; one more than there are
            keys.
    """

    __slots__ = ("_blob", "_offsets", "_prefix")

    def __init__(self, prefix: bytes, blob: bytes, offsets: npt.NDArray[np.integer]) -> None:
        self._prefix = prefix
        self._blob = blob
        self._offsets = offsets

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the keys take."""
        return len(self._prefix) + len(self._blob) + self._offsets.nbytes

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} keys")
        return (self._prefix + self._blob[self._offsets[position] : self._offsets[position + 1]]).decode()

    def __iter__(self) -> Iterator[str]:
        for start, stop in pairwise(self._offsets):
            yield (self._prefix + self._blob[start:stop]).decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"KeyColumn([{shown}{', …' if len(self) > 3 else ''}], {len(self)} keys)"


class Listing:
    """Names and sizes of objects, in order. Immutable; shared by forked processes and pickled as flat arrays.

    An object takes the bytes of its key that not all keys share, four (eight, in a listing with over 4 GiB of names)
    for the offset and eight for the size; a Python object for each would take more than ten times as much, and make
    every forked worker copy what it touches.

    Args:
        keys: the names.
        sizes_bytes: int64, one for each key; ``UNKNOWN_SIZE`` where it is not known.
    """

    __slots__ = ("keys", "sizes_bytes")

    def __init__(self, keys: KeyColumn, sizes_bytes: npt.NDArray[np.int64]) -> None:
        if len(keys) != len(sizes_bytes):
            raise ValueError(f"a listing needs one size for each key; got {len(keys)} keys, {len(sizes_bytes)} sizes")
        self.keys = keys
        self.sizes_bytes = sizes_bytes

    @classmethod
    def collect(cls, objects: Iterable[tuple[str, int | None]], *, prefix: str = "") -> Listing:
        """Make the columns of keys and sizes as they come.

        Raises:
            ValueError: a key does not begin with ``prefix``, so that it could not be kept as it is.
        """
        shared = key_bytes(prefix)
        blob, offsets, sizes = bytearray(), array("q", [0]), array("q")
        for key, size_bytes in objects:
            encoded = key_bytes(key)
            if not encoded.startswith(shared):
                raise ValueError(
                    f"every key should begin with {prefix!r}; got {key!r}: the store listed what it should not"
                )
            blob += encoded[len(shared) :]
            offsets.append(len(blob))
            sizes.append(UNKNOWN_SIZE if size_bytes is None else size_bytes)
        narrow = np.uint32 if len(blob) <= np.iinfo(np.uint32).max else np.int64
        keys = KeyColumn(shared, bytes(blob), np.frombuffer(offsets, np.int64).astype(narrow))
        return cls(keys, np.array(sizes, np.int64))

    @classmethod
    def of_keys(cls, keys: Sequence[str]) -> Listing:
        """Make the columns of keys whose sizes are not known."""
        shared = commonprefix(keys)  # noqa: RUF071  # keys are plain text, so comparing by characters is meant
        return cls.collect(((key, None) for key in keys), prefix=shared)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the columns take."""
        return self.keys.nbytes + self.sizes_bytes.nbytes

    def size_bytes(self, position: int) -> int | None:
        """The size of one object in bytes; None where it is not known."""
        size = int(self.sizes_bytes[position])
        return None if size == UNKNOWN_SIZE else size

    def __len__(self) -> int:
        return len(self.sizes_bytes)

    def __getstate__(self) -> tuple[KeyColumn, npt.NDArray[np.int64]]:
        return self.keys, self.sizes_bytes

    def __setstate__(self, state: tuple[KeyColumn, npt.NDArray[np.int64]]) -> None:
        self.keys, self.sizes_bytes = state

    def __repr__(self) -> str:
        return f"Listing({len(self)} objects, {self.nbytes} bytes of memory)"
