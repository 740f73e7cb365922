"""A checkpoint that is open: what it has is known, and read when it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self

import torch

from torchbucket.config import MIB, StoreConfig
from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.public import public_in
from torchbucket.safetensors.header import TensorPlace, quoted
from torchbucket.safetensors.loading import read_tensors
from torchbucket.safetensors.places import PlacedTensors, TensorFile, all_of, find_tensors
from torchbucket.safetensors.slicing import Block, Index, selection
from torchbucket.safetensors.tensors import empty_tensor, memory_of, torch_dtype, torch_shape
from torchbucket.store.protocol import ObjectInfo, Store, Target
from torchbucket.uri import Address

__all__ = ["OpenSafetensors", "TensorSlice", "safe_open"]

# Of a range with bytes in it that are not wanted, and how many such ranges are in memory at a time.
_BLOCK_BYTES: Final = 8 * MIB
_BLOCKS: Final = 8

# Elements are moved whole, whatever they mean.
_WORDS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@public_in("torchbucket.safetensors")
def safe_open(
    uri: Address,
    framework: str = "pt",
    device: str | int | torch.device = "cpu",
    *,
    config: StoreConfig | None = None,
) -> OpenSafetensors:
    """Open a safetensors checkpoint to read some of it. Headers are read and checked, nothing else.

    Args:
        uri: the address of a file, of an index or of a directory, as of ``load_file``.
        framework: ``pt``; there for what is written for ``safetensors.safe_open``.
        device: where the tensors are to be, as ``torch.device`` takes it.
        config: the settings; None means the defaults.

    Raises:
        CheckpointError: see ``load_file``.
        StoreError: a read failed.
        ConfigError: another framework.
    """
    if framework not in ("pt", "torch", "pytorch"):
        raise ConfigError(f"framework must be 'pt', since this gives torch's tensors; got {framework!r}")
    return OpenSafetensors(find_tensors(uri, config), torch.device(device))


@public_in("torchbucket.safetensors")
class OpenSafetensors:
    """The tensors of a checkpoint by name, read when they are asked for, all of the versions that were opened.

    ``safe_open`` makes it. It holds no connection, so that closing it is no duty; it may be used by several threads,
    after a fork, and be pickled.

    Args:
        found: where the tensors lie.
        device: where they are to be.
    """

    def __init__(self, found: PlacedTensors, device: torch.device) -> None:
        self._found = found
        self._device = device
        self._closed = False

    @property
    def uri(self) -> str:
        """The address of the file, or of the index."""
        return self._found.uri

    def keys(self) -> list[str]:
        """The tensors' names, sorted."""
        return sorted(self._places)

    def offset_keys(self) -> list[str]:
        """The tensors' names in the order of their bytes, file after file: reading in this order is fastest."""
        return list(self._places)

    def metadata(self) -> dict[str, Any] | None:
        """What the file's header, or the index, has as metadata; None where it has none."""
        metadata = self._found.metadata
        return None if metadata is None else dict(metadata)

    def get_tensor(self, name: str) -> torch.Tensor:
        """Read one tensor into memory of its own.

        Raises:
            CheckpointError: there is no such tensor, or this torch lacks its dtype.
            StoreError: the read failed; ``ObjectChangedError`` where the object was overwritten since it was opened.
        """
        return self.get_tensors([name])[name]

    def get_tensors(self, names: Iterable[str] | None = None) -> dict[str, torch.Tensor]:
        """Read several tensors at once, or all of them for None; see ``get_tensor``."""
        if isinstance(names, str):
            raise TypeError(f"names must be several names; got the text {quoted(names)}: use get_tensor for one")
        wanted = list(self._places if names is None else names)
        for name in wanted:
            self._place(name)
        tensors = read_tensors(self._found, wanted)
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def get_slice(self, name: str) -> TensorSlice:
        """One tensor of which a part is to be read, as ``get_slice(name)[2:5, :, 0]``; nothing is read yet.

        Raises:
            CheckpointError: there is no such tensor.
        """
        file, place = self._place(name)
        return TensorSlice(self._found.store, file, place, self._device)

    def close(self) -> None:
        """End the use; closing again is allowed."""
        self._closed = True

    @property
    def _places(self) -> Mapping[str, tuple[TensorFile, TensorPlace]]:
        if self._closed:
            raise ValueError(f"{self.uri} is closed")
        return self._found.places

    def _place(self, name: str) -> tuple[TensorFile, TensorPlace]:
        place = self._places.get(name)
        if place is None:
            raise CheckpointError(
                f"{self.uri} has no tensor {quoted(name)}; keys() tells the {len(self._places)} that it has",
                uri=self.uri,
            )
        return place

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<OpenSafetensors {self.uri}, {len(self._found.places)} tensors>"


@public_in("torchbucket.safetensors")
class TensorSlice:
    """One tensor of which indexing reads a part. ``OpenSafetensors.get_slice`` makes it.

    Args:
        store: the bucket.
        file: the file that has it.
        place: where it is in the file.
        device: where the part is to be.
    """

    def __init__(self, store: Store, file: TensorFile, place: TensorPlace, device: torch.device) -> None:
        self._store = store
        self._file = file
        self._place = place
        self._device = device

    def get_shape(self) -> list[int]:
        """The whole tensor's shape in elements, as the header has it."""
        return list(self._place.shape)

    def get_dtype(self) -> str:
        """The kind of its elements, as the header has it, such as ``F32``."""
        return self._place.dtype

    def __getitem__(self, index: Index) -> torch.Tensor:
        """Read what ``tensor[index]`` is, and about as many bytes.

        What is not asked for is read only where it lies between wanted bytes and is shorter than a request is worth.

        Args:
            index: whole numbers, slices with steps of at least 1, and ``...``, as of a tensor.

        Raises:
            IndexError, TypeError, ValueError: the index fits no such tensor.
            CheckpointError: this torch lacks the dtype.
            StoreError: the read failed.
        """
        dtype = torch_dtype(self._file.uri, self._place)
        selected = selection(torch_shape(self._file.uri, self._place), dtype.itemsize, index)
        result = empty_tensor(selected.shape, dtype)
        memory = memory_of(result)
        whole: list[Target] = []
        parts: list[Block] = []
        for block in selected.blocks(_BLOCK_BYTES):
            length = block.stop - block.start
            position = block.position * dtype.itemsize
            if _size(block) * dtype.itemsize == length:
                whole.append((self._place.start + block.start, memory[position : position + length]))
            else:
                parts.append(block)
        if whole:
            all_of([self._submit(whole)])
        if parts:
            self._read_parts(parts, result.reshape(-1).view(_WORDS[dtype.itemsize]))
        return result.to(self._device)

    def _read_parts(self, blocks: list[Block], result: torch.Tensor) -> None:
        """Read ranges of which not all is wanted, some at a time, and copy what is."""
        under_way: deque[tuple[Block, torch.Tensor, Future[ObjectInfo]]] = deque()
        try:
            for block in blocks:
                if len(under_way) == _BLOCKS:
                    _take(*under_way.popleft(), result)
                received = empty_tensor((block.stop - block.start,), torch.uint8)
                target = (self._place.start + block.start, memory_of(received))
                under_way.append((block, received, self._submit([target])))
            while under_way:
                _take(*under_way.popleft(), result)
        finally:
            while under_way:
                under_way.popleft()[2].cancel()

    def _submit(self, targets: list[Target]) -> Future[ObjectInfo]:
        info = self._file.info
        return self._store.submit_read_into(self._file.key, targets, size_bytes=info.size_bytes, version=info.version)

    def __repr__(self) -> str:
        return f"<TensorSlice {quoted(self._place.name)} {self.get_dtype()} {self.get_shape()} of {self._file.uri}>"


def _take(block: Block, received: torch.Tensor, future: Future[ObjectInfo], result: torch.Tensor) -> None:
    """Wait for a range and copy what is wanted of it to its place."""
    try:
        future.result()
    except BaseException:
        future.cancel()
        raise
    finally:
        del future  # An error keeps the frames that it passes, which must not keep it in turn.
    words = received.view(result.dtype)
    strides = [stride // result.itemsize for stride in block.strides]
    size = _size(block)
    result[block.position : block.position + size].view(block.shape).copy_(words.as_strided(block.shape, strides))


def _size(block: Block) -> int:
    return torch.Size(block.shape).numel()
