"""How a tensor lies in a file of a distributed checkpoint: an archive of ``torch.save`` by itself."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import torch

from torchbucket.checkpoint.archive import is_plain, is_whole, lay_out
from torchbucket.checkpoint.archive_layout import ARCHIVE_MAGIC
from torchbucket.errors import CheckpointError
from torchbucket.store.owned_memory import view_of

__all__ = ["TensorLayout", "check_memory", "layout_of", "tensor_layout"]

_PICKLE_PROTOCOL: Final = torch.serialization.DEFAULT_PROTOCOL
# Of a local header, where its CRC-32 is. Source: .ZIP File Format Specification (APPNOTE.TXT 6.3.10), 4.3.7.
_CRC_START: Final = 14
_CRC_STOP: Final = 18


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """The bytes around a tensor's elements, which are the same for each of one dtype, shape and strides.

    Args:
        head: what comes before the elements.
        payload_bytes: how many bytes the elements have.
        tail: what comes after them.
    """

    head: bytes
    payload_bytes: int
    tail: bytes

    @property
    def size_bytes(self) -> int:
        """The archive's length."""
        return len(self.head) + self.payload_bytes + len(self.tail)

    def begins(self, found: memoryview | bytes | bytearray) -> bool:
        """Whether these bytes come before the elements of such a tensor, whoever wrote it.

        All may differ in is the elements' CRC-32, which torch never reads and we do not write.
        """
        head = self.head
        if not self.payload_bytes:
            return found == head
        start = head.rindex(ARCHIVE_MAGIC)
        return (
            len(found) == len(head)
            and found[: start + _CRC_START] == head[: start + _CRC_START]
            and found[start + _CRC_STOP :] == head[start + _CRC_STOP :]
        )


@lru_cache(maxsize=16_384)
def layout_of(dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...] | None = None) -> TensorLayout | None:
    """How torch saves a tensor whose elements fill its memory; None where it cannot say without them.

    Args:
        dtype: of the elements.
        size: the shape.
        stride: in elements; None where it is contiguous.
    """
    meta = torch.empty(size, dtype=dtype, device="meta")
    payload_bytes = meta.numel() * meta.element_size()
    storage = _untouched(payload_bytes)
    tensor = torch.empty(0, dtype=dtype, device="cpu")
    tensor.set_(storage, 0, size, meta.stride() if stride is None else stride)
    archive = lay_out(tensor, _PICKLE_PROTOCOL)
    if archive is None:
        return None
    pieces = archive.views()
    if not payload_bytes:
        return TensorLayout(b"".join(pieces), 0, b"")
    head, _, tail = pieces
    return TensorLayout(bytes(head), payload_bytes, bytes(tail))


def _untouched(length: int) -> torch.UntypedStorage:
    """A storage whose memory nobody reads or writes, of any length.

    It is mapped for reading, since the system grants no more memory than there is to whom may write: a rank that wants
    some rows of a tensor need not have room for all of it.
    """
    if not length:
        return torch.UntypedStorage(0, device="cpu")  # type: ignore[no-untyped-call]
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    address: int = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    return torch.frombuffer(view_of(memory, address, length), dtype=torch.uint8).untyped_storage()


def tensor_layout(tensor: torch.Tensor) -> TensorLayout | None:
    """The layout of a tensor that fills its own part of a storage, without gaps; None for any other."""
    if tensor.is_contiguous():
        return layout_of(tensor.dtype, tuple(tensor.shape))
    if tensor.untyped_storage().nbytes() == tensor.nbytes and not tensor.storage_offset() and _is_dense(tensor):
        return layout_of(tensor.dtype, tuple(tensor.shape), tensor.stride())
    return None


def check_memory(tensor: torch.Tensor, uri: str, name: str) -> None:
    """Raise where a tensor's memory was freed or cut, as FSDP does with what it has gathered."""
    if is_plain(tensor) and tensor.layout is torch.strided and not is_whole(tensor):
        raise CheckpointError(
            f"{uri}: the tensor {name!r} has the shape {tuple(tensor.shape)}, and its storage only "
            f"{tensor.untyped_storage().nbytes():,} bytes: its memory was given back; take the state of the model anew",
            uri=uri,
        )


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie side by side, in whatever order."""
    expected = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True
