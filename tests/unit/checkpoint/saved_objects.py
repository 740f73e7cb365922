"""What is saved and loaded by way of every road: one of each kind of thing that a checkpoint may hold."""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["OBJECTS", "TRUSTED", "Reading", "Tagged", "assert_same", "torch_bytes"]


class Reading:
    """Looks at its tensor when it is unpickled, as a class with buffers of its own may."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.total = float(tensor.sum())

    def __getstate__(self) -> dict[str, Any]:
        return {"tensor": self.tensor}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.tensor = state["tensor"]
        self.total = float(self.tensor.sum())


class Tagged(torch.Tensor):
    """A subclass with a mark."""


def _tagged() -> Tagged:
    tensor = torch.arange(5.0).as_subclass(Tagged)
    tensor.mark = "seen"  # type: ignore[attr-defined]
    return tensor


def _tied() -> dict[str, Any]:
    weight = nn.Parameter(torch.randn(7, 3))
    return {"first": weight, "second": weight, "view": weight.detach()[2:5]}


def _views() -> list[torch.Tensor]:
    base = torch.arange(60.0).reshape(5, 12)
    return [base, base.t(), base[1:3, ::2], base.flatten()[7], base.reshape(-1).as_strided((3, 3), (5, 2), 4)]


def _numbers() -> dict[str, torch.Tensor]:
    bits = torch.arange(96, dtype=torch.uint8)
    kinds = [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int64, torch.complex64]
    kinds += [torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]
    return {str(kind): bits.clone().view(kind) for kind in kinds} | {"bool": bits > 40}


def _training() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(3, 6)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3, "best": torch.tensor(0.25)}


def _jagged() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])


OBJECTS: dict[str, Callable[[], Any]] = {
    "a training state": _training,
    "tied weights": _tied,
    "views": _views,
    "numbers": _numbers,
    "no dimension, no element": lambda: [torch.tensor(3), torch.empty(0), torch.empty(2, 0, 3), torch.tensor(True)],
    "parameters": lambda: [nn.Parameter(torch.randn(3)), nn.Parameter(torch.ones(2), requires_grad=False)],
    "a gradient wanted": lambda: torch.randn(4, requires_grad=True),
    "conjugate and negative": lambda: [
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.randn(3, 2).to(torch.complex64).conj().imag,
    ],
    "sparse": lambda: [torch.eye(4).to_sparse(), torch.eye(4).to_sparse_csr()],
    "quantized": lambda: [
        torch.quantize_per_tensor(torch.randn(4, 3), 0.1, 2, torch.qint8),
        torch.quantize_per_channel(torch.randn(3, 4), torch.rand(3) + 0.1, torch.zeros(3), 0, torch.quint8),
    ],
    "nested": _jagged,
    "without content": lambda: torch.empty(3, device="meta"),
    "storages": lambda: [torch.arange(9.0).untyped_storage(), torch.arange(4.0).storage()],
    "containers": lambda: OrderedDict(a=[1, (2.5, None, "text"), {3: b"bytes"}], b={"c", 4}, size=torch.Size([2, 3])),
    "no tensor": lambda: {"epoch": 3},
    "many": lambda: [torch.full((number,), float(number)) for number in range(40)],
}
"""Objects that ``weights_only`` accepts."""

TRUSTED: dict[str, Callable[[], Any]] = {
    "one that looks": lambda: {"first": Reading(torch.arange(1000.0)), "second": torch.arange(1000.0)},
    "a subclass": _tagged,
    "a module": lambda: nn.Linear(3, 2),
    "arrays": lambda: {"array": np.arange(5), "scalar": np.float64(2.5), "tensor": torch.arange(3)},
}
"""Objects that only ``weights_only=False`` accepts."""


def torch_bytes(saved: Any, **options: Any) -> bytes:
    """What ``torch.save`` writes of an object."""
    file = io.BytesIO()
    torch.save(saved, file, **options)
    return file.getvalue()


def assert_same(found: Any, wanted: Any) -> None:
    """Raise AssertionError where two loads of the same bytes differ in anything that can be told of them."""
    storages: dict[int, int] = {}
    _assert_same(found, wanted, storages)
    assert len({*storages.values()}) == len(storages)  # what shares memory in one does so in the other


def _assert_same(found: Any, wanted: Any, storages: dict[int, int]) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        _assert_same_tensor(found, wanted, storages)
    elif isinstance(wanted, torch.UntypedStorage):
        assert found.tolist() == wanted.tolist()
    elif isinstance(wanted, torch.storage.TypedStorage):
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            _assert_same(found[key], wanted[key], storages)
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            _assert_same(one, other, storages)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(found, wanted)
    elif hasattr(wanted, "__dict__"):
        _assert_same(vars(found), vars(wanted), storages)
    else:
        assert found == wanted


def _assert_same_tensor(found: torch.Tensor, wanted: torch.Tensor, storages: dict[int, int]) -> None:
    if wanted.is_nested:
        assert found.is_nested
        for one, other in zip(found.unbind(), wanted.unbind(), strict=True):
            assert torch.equal(one, other)
        return
    for name in ("dtype", "shape", "layout", "device", "requires_grad", "is_leaf", "is_quantized"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert found.__dict__ == wanted.__dict__
    if wanted.layout is not torch.strided:
        assert torch.equal(found.to_dense(), wanted.to_dense())
    else:
        assert (found.stride(), found.storage_offset()) == (wanted.stride(), wanted.storage_offset())
        assert (found.is_conj(), found.is_neg()) == (wanted.is_conj(), wanted.is_neg())
        if wanted.device.type == "cpu":
            assert bytes(found.untyped_storage()) == bytes(wanted.untyped_storage())
            if wanted.numel():
                assert storages.setdefault(wanted.untyped_storage().data_ptr(), found.untyped_storage().data_ptr()) == (
                    found.untyped_storage().data_ptr()
                )
        if wanted.is_quantized:
            assert torch.equal(found.dequantize(), wanted.dequantize())
