"""Reading one item of a distributed checkpoint: which bytes, into which memory, and what is done with them then."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import LoadPlanner, ReadItem

from torchbucket.checkpoint.archive import holds_elements
from torchbucket.dcp.item_layout import TensorLayout, check_memory, layout_of
from torchbucket.dcp.strides import contiguous_strides
from torchbucket.errors import CheckpointError
from torchbucket.store.owned_memory import view_of
from torchbucket.store.protocol import Target

__all__ = ["ItemRead", "StoredTensor", "can_be_filled", "check_shape", "read_of_bytes", "read_of_tensor"]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What the metadata says of a stored piece of a tensor.

    Args:
        dtype: of its elements.
        size: the piece's shape.
    """

    dtype: torch.dtype
    size: tuple[int, ...]


class ItemRead(Protocol):
    """One item that is being read."""

    name: str
    offset: int
    scratch_bytes: int

    @property
    def wanted(self) -> torch.Tensor | None:
        """What it goes into; None for a plain value."""
        ...

    def keep_apart(self) -> None:
        """Read it into memory of its own, also where it could go straight to where it belongs."""
        ...

    def targets(self) -> list[Target]:
        """What to fill, with memory made now."""
        ...

    def content(self) -> list[memoryview]:
        """All bytes of the item, once they are there; nothing where only a part of it is read."""
        ...

    def finish(self) -> ItemRead | None:
        """Hand it to the planner once all is filled; another read where that was not what had to be read."""
        ...


class _Whole:
    """An item read whole, and unpacked as PyTorch does."""

    def __init__(
        self, uri: str, item: ReadItem, place: _StorageInfo, planner: LoadPlanner, registry: ExtensionRegistry
    ) -> None:
        self._uri = uri
        self._item = item
        self._place = place
        self._planner = planner
        self._registry = registry
        self._memory = bytearray()
        self.name = place.relative_path
        self.offset = place.offset
        self.scratch_bytes = place.length
        self.wanted: torch.Tensor | None = None

    def keep_apart(self) -> None:
        pass

    def targets(self) -> list[Target]:
        self._memory = bytearray(self._place.length)
        return [(self._place.offset, memoryview(self._memory))]

    def content(self) -> list[memoryview]:
        return [memoryview(self._memory)]

    def stream(self) -> Any:
        """What was written, before any extension transformed it."""
        stream: Any = io.BytesIO(self._memory)
        self._memory = bytearray()
        for extension in self._registry.from_descriptor_list(self._place.transform_descriptors or ()):
            if isinstance(extension, StreamTransformExtension):
                stream = extension.transform_from(stream)
        return stream

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say of what cannot be unpacked what it is and where it lies."""
        try:
            yield
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"{self._uri}: {self._item.storage_index.fqn!r} cannot be unpacked ({type(error).__name__}: {error}); "
                "the file or the metadata is damaged: load an earlier checkpoint",
                uri=self._uri,
            ) from error


class _WholeBytes(_Whole):
    """A plain value."""

    def __init__(self, *args: Any, weights_only: bool) -> None:
        super().__init__(*args)
        self._weights_only = weights_only

    def finish(self) -> None:
        with self.named():
            content = io.BytesIO(self.stream().read(-1))
            if self._weights_only:
                _refuse_unsafe(content, self._uri, self._item.storage_index.fqn)
        self._planner.load_bytes(self._item, content)


class _WholeTensor(_Whole):
    """A tensor that torch unpacks."""

    def finish(self) -> None:
        with self.named():
            stream = self.stream()
            if not stream.seekable():
                stream = io.BytesIO(stream.read(-1))
            tensor = torch.load(stream, map_location="cpu", weights_only=True)
            if not isinstance(tensor, torch.Tensor):
                raise CheckpointError(
                    f"{self._uri}: a {type(tensor).__name__} is stored where the metadata has the tensor "
                    f"{self._item.storage_index.fqn!r}",
                    uri=self._uri,
                )
            found = narrow_tensor_by_index(tensor, self._item.storage_offsets, self._item.lengths)
        _hand_over(self._planner, self._item, found, self._uri)


class _Placed:
    """A tensor, or a part of one, whose bytes are read by themselves, where they are expected to be.

    The bytes before the tensor's elements tell whether they were there. They go into the memory of the wanted tensor
    where those elements lie one after another in both, and else into memory of their own.
    """

    def __init__(self, whole: _WholeTensor, layout: TensorLayout, stored: StoredTensor, wanted: torch.Tensor) -> None:
        self._whole = whole
        self._layout = layout
        self._stored = stored
        self.wanted = wanted
        item = whole._item
        self._strides = contiguous_strides(stored.size)
        itemsize = stored.dtype.itemsize
        first = sum(offset * stride for offset, stride in zip(item.storage_offsets, self._strides, strict=True))
        last = first + sum((length - 1) * stride for length, stride in zip(item.lengths, self._strides, strict=True))
        self._start = whole._place.offset + len(layout.head) + first * itemsize
        self._length = (last + 1 - first) * itemsize
        self._is_direct = self._length == wanted.nbytes and can_be_filled(wanted, stored.dtype)
        # What comes after the elements is of use only for the checksum of all of it.
        self._tail = bytearray(len(layout.tail) if self._length == layout.payload_bytes else 0)
        self._head = bytearray()
        self._memory: memoryview = memoryview(b"")
        self.name = whole.name
        self.offset = whole.offset
        self.scratch_bytes = len(layout.head) + len(self._tail) + (0 if self._is_direct else self._length)

    def keep_apart(self) -> None:
        self.scratch_bytes += self._length if self._is_direct else 0
        self._is_direct = False

    def targets(self) -> list[Target]:
        self._head = bytearray(len(self._layout.head))
        if self._is_direct:
            self._memory = view_of(self.wanted, self.wanted.data_ptr(), self._length)
        else:
            self._memory = memoryview(bytearray(self._length))
        return [
            (self.offset, memoryview(self._head)),
            (self._start, self._memory),
            (self._start + self._length, memoryview(self._tail)),
        ]

    def content(self) -> list[memoryview]:
        return [memoryview(self._head), self._memory, memoryview(self._tail)] if self._tail else []

    def finish(self) -> ItemRead | None:
        if not self._layout.begins(self._head):
            return self._whole
        item, planner = self._whole._item, self._whole._planner
        if self._is_direct:
            planner.commit_tensor(item, self.wanted)
        else:
            flat = torch.frombuffer(self._memory, dtype=self._stored.dtype)
            self.wanted.copy_(flat.as_strided(tuple(item.lengths), self._strides))
            planner.commit_tensor(item, self.wanted)
            self._memory = memoryview(b"")
        return None


class _Nothing:
    """A part of a tensor that has no elements."""

    scratch_bytes = 0

    def __init__(self, place: _StorageInfo, item: ReadItem, planner: LoadPlanner, wanted: torch.Tensor) -> None:
        self.name = place.relative_path
        self.offset = place.offset
        self._item = item
        self._planner = planner
        self.wanted = wanted

    def keep_apart(self) -> None:
        pass

    def targets(self) -> list[Target]:
        return []

    def content(self) -> list[memoryview]:
        return []

    def finish(self) -> None:
        self._planner.commit_tensor(self._item, self.wanted)


def read_of_bytes(
    uri: str,
    item: ReadItem,
    place: _StorageInfo,
    planner: LoadPlanner,
    registry: ExtensionRegistry,
    *,
    weights_only: bool,
) -> ItemRead:
    """How to read a plain value."""
    return _WholeBytes(uri, item, place, planner, registry, weights_only=weights_only)


def read_of_tensor(
    uri: str,
    item: ReadItem,
    place: _StorageInfo,
    stored: StoredTensor | None,
    planner: LoadPlanner,
    registry: ExtensionRegistry,
) -> ItemRead:
    """How to read a tensor or a part of one.

    Raises:
        CheckpointError: the wanted part has another shape than the planner's tensor, or is no part of the stored one.
    """
    wanted = planner.resolve_tensor(item).detach()
    check_shape(uri, item, wanted)
    check_memory(wanted, uri, item.storage_index.fqn)
    if not wanted.numel():
        return _Nothing(place, item, planner, wanted)
    whole = _WholeTensor(uri, item, place, planner, registry)
    whole.wanted = wanted
    if stored is None or place.transform_descriptors:
        return whole
    _check_inside(uri, item, stored)
    if math.prod(stored.size) * stored.dtype.itemsize > place.length:  # which may be more than there is memory
        return whole
    layout = layout_of(stored.dtype, stored.size)
    if layout is None or layout.size_bytes != place.length:
        return whole
    return _Placed(whole, layout, stored, wanted)


def check_shape(uri: str, item: ReadItem, wanted: torch.Tensor) -> None:
    """Raise where a tensor has not the shape of the part that is to go into it."""
    if tuple(wanted.shape) != tuple(item.lengths):
        raise CheckpointError(
            f"{uri}: {item.storage_index.fqn!r} is wanted with the shape {tuple(item.lengths)}, and the tensor that it "
            f"goes into has {tuple(wanted.shape)}",
            uri=uri,
        )


def _check_inside(uri: str, item: ReadItem, stored: StoredTensor) -> None:
    if len(item.storage_offsets) != len(stored.size) or any(
        offset < 0 or offset + length > size
        for offset, length, size in zip(item.storage_offsets, item.lengths, stored.size, strict=True)
    ):
        raise CheckpointError(
            f"{uri}: {tuple(item.lengths)} from {tuple(item.storage_offsets)} on is no part of "
            f"{item.storage_index.fqn!r}, whose stored piece has the shape {stored.size}",
            uri=uri,
        )


def can_be_filled(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether bytes of that dtype can be read straight into a tensor."""
    return tensor.dtype == dtype and holds_elements(tensor) and tensor.is_contiguous()


def _hand_over(planner: LoadPlanner, item: ReadItem, found: torch.Tensor, uri: str) -> None:
    wanted = planner.resolve_tensor(item)
    if wanted.shape != found.shape:
        raise CheckpointError(
            f"{uri}: {item.storage_index.fqn!r} is stored with the shape {tuple(found.shape)}, and the tensor that it "
            f"goes into has {tuple(wanted.shape)}",
            uri=uri,
        )
    with torch.no_grad():  # of a sparse tensor, what is detached does not share the elements
        wanted.copy_(found)
    planner.commit_tensor(item, wanted.detach())


def _refuse_unsafe(content: io.BytesIO, uri: str, name: str) -> None:
    """PyTorch's planner unpickles whatever is stored; so what may not run code is looked for first."""
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(content)
    if unsafe:
        raise CheckpointError(
            f"{uri}: the value {name!r} names {', '.join(sorted(unsafe))}, which may run code when it is unpickled. "
            "Where you trust the file, allow those by torch.serialization.add_safe_globals, or read with "
            "weights_only=False",
            uri=uri,
        )
    content.seek(0)
    # Names alone do not tell: a pickle can also change the classes that it names, which torch's unpickler refuses.
    torch.load(content, map_location="cpu", weights_only=True)
    content.seek(0)
