"""Names in a few flat arrays, however many there are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pickle import PickleBuffer
from typing import SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from torchbucket.public import public_in

__all__ = ["KeyColumn"]


@public_in("torchbucket.listing")
class KeyColumn(Sequence[str]):
    """The keys of a listing, each decoded when it is asked for; reads like a tuple of texts. Immutable.

    The keys are held in blocks, most often one for a page of the listing. What all keys of a block begin with is held
    once, so that a name takes what tells it from its neighbours.

    Args:
        heads: for each block, the bytes that its keys begin with.
        starts: for each block, the position of its first key; the first is 0.
        blob: what follows the head in every key, one after another.
        offsets: where each key's part begins in the blob, and the blob's length at the end; one more than there are
            keys.
    """

    __slots__ = ("_blob", "_heads", "_offsets", "_starts")

    def __init__(
        self, heads: Sequence[bytes], starts: Sequence[int], blob: bytes | memoryview, offsets: npt.NDArray[np.integer]
    ) -> None:
        self._heads = tuple(heads)
        self._starts = tuple(starts)
        self._blob = blob
        self._offsets = offsets

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[object, ...]:
        # From protocol 5 on a pickler may be asked to hand the names over apart from the pickle, as it does numpy's
        # arrays, so that processes share them.
        blob = PickleBuffer(self._blob) if protocol.__index__() >= 5 else bytes(self._blob)
        return KeyColumn, (self._heads, self._starts, blob, self._offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the keys take."""
        return sum(map(len, self._heads)) + 8 * len(self._starts) + len(self._blob) + self._offsets.nbytes

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
        head = self._heads[bisect_right(self._starts, position) - 1]
        return (head + self._blob[self._offsets[position] : self._offsets[position + 1]]).decode()

    def __iter__(self) -> Iterator[str]:
        blob = self._blob
        for head, (first, last) in zip(self._heads, pairwise((*self._starts, len(self))), strict=True):
            for start, stop in pairwise(self._offsets[first : last + 1].tolist()):
                yield (head + blob[start:stop]).decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"KeyColumn([{shown}{', …' if len(self) > 3 else ''}], {len(self)} keys)"
