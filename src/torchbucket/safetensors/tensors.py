"""Tensors of torch and their memory: what files are read into and written from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Final

import torch

from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.safetensors.dtypes import DTYPES, ElementType
from torchbucket.safetensors.header import TensorPlace, is_unicode, quoted
from torchbucket.store.fresh_memory import FRESH_BYTES, fresh_memory

__all__ = [
    "check_tensor",
    "checked_tensors",
    "element_type",
    "empty_tensor",
    "memory_of",
    "shape_in_file",
    "torch_dtype",
    "torch_shape",
]

_TORCH_DTYPES: Final[Mapping[str, torch.dtype]] = {
    name: getattr(torch, element.torch_name)
    for name, element in DTYPES.items()
    if element.torch_name is not None and hasattr(torch, element.torch_name)
}
_ELEMENT_TYPES: Final = {dtype: DTYPES[name] for name, dtype in _TORCH_DTYPES.items()}


def torch_dtype(uri: str, place: TensorPlace) -> torch.dtype:
    """The dtype of a file's tensor; ``CheckpointError`` where this torch has none."""
    dtype = _TORCH_DTYPES.get(place.dtype)
    if dtype is None:
        raise CheckpointError(
            f"{uri}: {quoted(place.name)} has the dtype {place.dtype}, which torch {torch.__version__} does not have; "
            "name the tensors that you need, without this one",
            uri=uri,
        )
    return dtype


def torch_shape(uri: str, place: TensorPlace) -> tuple[int, ...]:
    """The shape of a file's tensor as torch has it, which holds two elements of 4 bits in one."""
    packed = DTYPES[place.dtype].packed
    if packed == 1:
        return place.shape
    if not place.shape or place.shape[-1] % packed:
        raise CheckpointError(
            f"{uri}: {quoted(place.name)} of the dtype {place.dtype} has the shape {list(place.shape)}; torch holds "
            f"{packed} such elements in one, so that the last dimension must be divisible by {packed}",
            uri=uri,
        )
    return (*place.shape[:-1], place.shape[-1] // packed)


def shape_in_file(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape of a tensor in elements, as a header has it."""
    packed = _ELEMENT_TYPES[tensor.dtype].packed
    shape = tuple(tensor.shape)
    return shape if packed == 1 else (*shape[:-1], shape[-1] * packed)


def element_type(tensor: torch.Tensor) -> ElementType:
    """The kind of a tensor's elements."""
    return _ELEMENT_TYPES[tensor.dtype]


def empty_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of its own memory on the CPU, to be filled."""
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes < FRESH_BYTES and not torch.are_deterministic_algorithms_enabled():
        return torch.empty(shape, dtype=dtype, device="cpu")  # whatever the default device is
    # A storage by itself, since `torch.empty` fills its memory where deterministic algorithms are asked for.
    if size_bytes < FRESH_BYTES:
        storage = torch.UntypedStorage(size_bytes, device="cpu")  # type: ignore[no-untyped-call]
    else:
        storage = torch.frombuffer(fresh_memory(size_bytes), dtype=torch.uint8).untyped_storage()
    strides = [1] * len(shape)
    for dimension in range(len(shape) - 1, 0, -1):
        strides[dimension - 1] = strides[dimension] * max(1, shape[dimension])
    # Not of the dtype at once, since torch cannot fill each.
    tensor = torch.empty(0, dtype=torch.uint8, device="cpu").view(dtype).detach()
    return tensor.set_(storage, 0, shape, strides)  # type: ignore[call-overload,no-any-return,unused-ignore]


def memory_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU, as flat bytes; nothing is copied."""
    if not tensor.numel():
        return memoryview(bytearray())
    plain = tensor.detach() if tensor.requires_grad else tensor
    return plain.reshape(-1).view(torch.uint8).numpy().data


def checked_tensors(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors in the order in which a file has them; what safetensors refuses is refused.

    Raises:
        ConfigError: something that is no tensor or no name, no dtype of safetensors; a tensor that is sparse, not
            contiguous, without data, or shares memory with another one.
    """
    if not isinstance(tensors, Mapping):
        raise ConfigError(f"tensors must be a dict of tensors by name; got {type(tensors).__name__}")
    for name, tensor in tensors.items():
        check_tensor(name, tensor)
        if not tensor.is_contiguous():
            raise ConfigError(f"{quoted(name)} is not contiguous, which safetensors cannot hold: use contiguous()")
    _refuse_shared(tensors)
    order = sorted(tensors, key=lambda name: (-element_type(tensors[name]).rank, name))
    # Conjugated or negated tensors are so by a flag alone.
    return {name: tensors[name].detach().resolve_conj().resolve_neg() for name in order}


def check_tensor(name: object, tensor: object) -> None:
    """Raise ``ConfigError`` for what is no tensor or no name, and for a tensor that has no elements to be saved."""
    if name == "__metadata__" or not is_unicode(name):
        raise ConfigError(f"a tensor's name is a text other than __metadata__; got {quoted(name)}")
    if not isinstance(tensor, torch.Tensor):
        raise ConfigError(f"{quoted(name)} must be a torch.Tensor; got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ConfigError(f"{quoted(name)} is sparse ({tensor.layout}), which safetensors cannot hold: use to_dense()")
    if tensor.dtype not in _ELEMENT_TYPES:
        raise ConfigError(
            f"{quoted(name)} has the dtype {tensor.dtype}, which safetensors cannot hold; it has "
            f"{', '.join(str(dtype).removeprefix('torch.') for dtype in _ELEMENT_TYPES)}"
        )
    if tensor.device.type == "meta":
        raise ConfigError(f"{quoted(name)} is on the device meta, where tensors have no data")
    if torch.nn.parameter.is_lazy(tensor):
        raise ConfigError(f"{quoted(name)} is a parameter without a shape yet: run the lazy module once")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise ConfigError(
            f"{quoted(name)} is a {type(tensor).__name__}, which has no memory of its own that safetensors could hold: "
            "save the plain tensors that it is made of"
        )
    held_bytes, end = tensor.untyped_storage().nbytes(), tensor.storage_offset() + tensor.numel()
    # Memory is read up to there, whoever it belongs to by now.
    if tensor.numel() and tensor.is_contiguous() and end * tensor.itemsize > held_bytes:
        raise ConfigError(
            f"{quoted(name)} has {tensor.nbytes} bytes by its shape, and its storage {held_bytes}: it was resized or "
            "freed, as sharded training does with parameters that are gathered when they are needed; gather it first"
        )
    if not tensor.ndim and _ELEMENT_TYPES[tensor.dtype].packed != 1:
        raise ConfigError(f"{quoted(name)} of the dtype {tensor.dtype} has no dimension; it needs one")


def _refuse_shared(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise where bytes of two tensors are the same memory: each would be saved, and loaded as two."""
    spans = sorted(
        (str(tensor.device), tensor.data_ptr(), tensor.data_ptr() + math.prod(tensor.shape) * tensor.itemsize, name)
        for name, tensor in tensors.items()
        if tensor.numel()
    )
    for before, after in itertools.pairwise(spans):
        if before[0] == after[0] and after[1] < before[2]:
            raise ConfigError(
                f"{quoted(before[3])} and {quoted(after[3])} share memory, which safetensors cannot hold: leave one "
                "out and tie them again after loading, or clone() it"
            )
