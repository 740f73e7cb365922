"""Tensors of every dtype and shape that safetensors holds."""

from __future__ import annotations

import json
import struct

import torch

from torchbucket.safetensors.dtypes import DTYPES

TORCH_DTYPES = {
    name: getattr(torch, element.torch_name) for name, element in DTYPES.items() if element.torch_name is not None
}


def filled(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """A tensor of random bits, which for booleans are 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel() * dtype.itemsize
    top = 2 if dtype is torch.bool else 256
    bits = torch.randint(0, top, (count,), dtype=torch.uint8, generator=generator)
    return bits.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def every_dtype() -> dict[str, torch.Tensor]:
    """Tensors of each dtype, in several shapes, of which some are empty."""
    tensors = {}
    for number, (name, dtype) in enumerate(TORCH_DTYPES.items()):
        tensors[f"{name}.matrix"] = filled((3, 4), dtype, number)
        tensors[f"{name}.empty"] = filled((0, 4), dtype)
        if name != "F4":
            tensors[f"{name}.scalar"] = filled((), dtype, number)
    return tensors


def byte_values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, NaNs too."""
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(byte_values(one), byte_values(other))


def same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(same_bits(one[name], other[name]) for name in one)


def file_of(header: object, payload: bytes = b"") -> bytes:
    """A file with any header, a text or what becomes one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload
