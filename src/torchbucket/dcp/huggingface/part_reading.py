"""Reading one part of a tensor out of a safetensors file: the rows that are wanted, straight to where they belong."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import LoadPlanner, ReadItem

from torchbucket.config import KIB
from torchbucket.dcp.huggingface.boxes import Box, run_length, run_starts
from torchbucket.dcp.item_layout import check_memory
from torchbucket.dcp.item_reading import can_be_filled, check_shape
from torchbucket.dcp.strides import contiguous_strides
from torchbucket.errors import CheckpointError
from torchbucket.safetensors.header import quoted
from torchbucket.safetensors.tensors import empty_tensor, memory_of
from torchbucket.store.owned_memory import view_of
from torchbucket.store.protocol import Target

__all__ = ["PartRead"]

# Shorter rows are read with what is between them, and copied: each one's place costs as much as copying so many bytes.
_ROW_BYTES: Final = 512
# What is between rows is not read where it is longer than what it is worth to ask around; see torchbucket.dcp.batches.
_GAP_BYTES: Final = 64 * KIB


class PartRead:
    """A part of a tensor that is being read. Rows that lie apart in the file are asked for together, and go each to its
    place; where they are short, all that lies between them is read, and what is wanted is copied.

    Args:
        uri: the file's address, for messages.
        item: what the plan wants.
        place: where the piece is that it is a part of.
        stored: which elements of the tensor that piece has.
        dtype: of the stored elements.
        planner: has the tensor that they go into.

    Raises:
        CheckpointError: the tensor has another shape than is wanted, or what is wanted is not in the piece.
    """

    def __init__(
        self,
        uri: str,
        item: ReadItem,
        place: _StorageInfo,
        stored: Box,
        dtype: torch.dtype,
        planner: LoadPlanner,
    ) -> None:
        wanted = planner.resolve_tensor(item).detach()
        check_shape(uri, item, wanted)
        check_memory(wanted, uri, item.storage_index.fqn)
        self.name = place.relative_path
        self.offset = place.offset
        self._item = item
        self._planner = planner
        self.wanted = wanted
        self._dtype = dtype
        self._shape = stored.shape
        self._box = Box(tuple(item.storage_offsets), tuple(item.lengths))
        if len(self._box.shape) != len(self._shape) or any(
            stop > length for stop, length in zip(self._box.stops, self._shape, strict=True)
        ):
            raise CheckpointError(
                f"{uri}: {self._box} is no part of what is stored of {quoted(item.storage_index.fqn)}, which has the "
                f"shape {list(self._shape)}",
                uri=uri,
            )
        itemsize = dtype.itemsize
        self._row = run_length(self._shape, self._box)
        rows = self._box.size // max(self._row, 1)
        self._span = 0
        if rows > 1:
            last = sum(
                (stop - 1) * stride
                for stop, stride in zip(self._box.stops, contiguous_strides(self._shape), strict=True)
            )
            self._span = (last + 1 - self._first) * itemsize
        between = self._span // max(rows, 1) - self._row * itemsize
        self._by_rows = rows == 1 or self._row * itemsize >= _ROW_BYTES or between > _GAP_BYTES
        self._is_direct = self._by_rows and can_be_filled(wanted, dtype)
        self._received: torch.Tensor = torch.empty(0)
        self.scratch_bytes = 0
        if not self._is_direct:
            self.keep_apart()

    def keep_apart(self) -> None:
        """Read it into memory of its own, also where it could go straight to where it belongs."""
        self._is_direct = False
        self.scratch_bytes = self._box.size * self._dtype.itemsize if self._by_rows else self._span

    @property
    def _first(self) -> int:
        strides = contiguous_strides(self._shape)
        return sum(offset * stride for offset, stride in zip(self._box.offsets, strides, strict=True))

    def targets(self) -> list[Target]:
        """What to fill, with memory made now."""
        itemsize = self._dtype.itemsize
        if not self._box.size:
            return []
        if not self._by_rows:
            self._received = empty_tensor((self._span // itemsize,), self._dtype)
            return [(self.offset + self._first * itemsize, memory_of(self._received))]
        if self._is_direct:
            memory = view_of(self.wanted, self.wanted.data_ptr(), self.wanted.nbytes)
        else:
            self._received = empty_tensor(self._box.shape, self._dtype)
            memory = memory_of(self._received)
        length = self._row * itemsize
        starts = self.offset + run_starts(self._shape, self._box) * itemsize
        return [
            (start, memory[position : position + length])
            for start, position in zip(starts.tolist(), (np.arange(len(starts)) * length).tolist(), strict=True)
        ]

    def content(self) -> list[memoryview]:
        """All bytes of the piece, once they are there; nothing where only some are read."""
        if self._box.shape != self._shape or not self._box.size:
            return []
        if self._is_direct:
            return [view_of(self.wanted, self.wanted.data_ptr(), self.wanted.nbytes)]
        return [memory_of(self._received)]

    def finish(self) -> None:
        """Hand it to the planner."""
        if self._box.size and not self._is_direct:
            found = self._received
            if not self._by_rows:
                found = found.as_strided(self._box.shape, contiguous_strides(self._shape))
            self.wanted.copy_(found)
            self._received = torch.empty(0)
        self._planner.commit_tensor(self._item, self.wanted)
