"""What is pickled later is what would have been pickled at once, byte for byte."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from saved_objects import OBJECTS, TRUSTED
from torch import nn

import torchbucket
from torchbucket.checkpoint.archive import lay_out
from torchbucket.checkpoint.snapshot import take_snapshot

LAID_OUT_AT_ONCE = {"conjugate and negative", "sparse", "quantized", "nested", "without content", "storages"} | {
    *("one that looks", "a subclass", "a module", "arrays")
}


def laid_out(obj: Any) -> bytes:
    archive = lay_out(obj, 2)
    assert archive is not None
    return b"".join(archive.views())


def overwrite(obj: Any) -> None:
    """Change every tensor of an object, and the object."""
    if isinstance(obj, torch.Tensor):
        if obj.numel():
            memory = obj.detach().untyped_storage()
            memory.copy_(torch.full((memory.nbytes(),), 7, dtype=torch.uint8).untyped_storage())
    elif isinstance(obj, dict):
        for value in obj.values():
            overwrite(value)
        obj["changed"] = True
    elif isinstance(obj, list):
        for value in obj:
            overwrite(value)
        obj.append("changed")


@pytest.mark.parametrize("name", [*OBJECTS, *TRUSTED])
def test_a_snapshot_is_pickled_to_the_bytes_of_the_object_as_it_was(name: str) -> None:
    obj = (OBJECTS | TRUSTED)[name]()
    snapshot = take_snapshot(obj)
    assert (snapshot is None) == (name in LAID_OUT_AT_ONCE)
    if snapshot is None:
        return
    before = laid_out(obj)
    snapshot.copy_to(memoryview(bytearray(snapshot.size_bytes)))
    overwrite(obj)
    assert laid_out(snapshot.restore()) == before


def test_the_same_objects_stay_the_same_ones() -> None:
    """Else a pickle would hold them twice, and a load would give two."""
    text, weight, inner = "a long name " * 3, torch.ones(3), [1]
    count: defaultdict[str, list[int]] = defaultdict(list, a=inner)
    obj = OrderedDict(first=weight, second=weight, names=[text, text, (text,)], inner=inner, count=count)
    obj.own = {"of": obj}  # type: ignore[attr-defined]
    snapshot = take_snapshot(obj)
    assert snapshot is not None
    snapshot.copy_to(memoryview(bytearray(snapshot.size_bytes)))
    restored = snapshot.restore()
    assert restored["first"] is restored["second"] is not weight
    assert restored["count"]["a"] is restored["inner"]
    assert restored.own["of"] is restored
    assert laid_out(restored) == laid_out(obj)


def test_what_torch_refuses_it_refuses_at_the_call() -> None:
    weight = torch.ones(4)
    memory = np.zeros(4, np.int32)
    for refused, message in [
        (
            [torch.from_numpy(memory), torch.from_numpy(memory.view(np.float32))],
            "view the same data as different types",
        ),
        ({"one": weight, "other": weight.view(torch.int32)}, "view the same data as different types"),
        ({"lock": threading.Lock()}, "cannot pickle"),
        ({"local": lambda: None}, "Can't pickle"),
    ]:
        assert take_snapshot(refused) is None
        with pytest.raises(Exception, match=message):
            torchbucket.save_async(refused, "memory://snapshots/k.pt")


@pytest.mark.parametrize(
    "obj",
    [
        SimpleNamespace(epoch=3),
        [nn.Buffer(torch.ones(3))],
        [torch.ones(2).as_subclass(nn.Parameter)],
    ],
    ids=["an object", "a buffer", "a parameter of another kind"],
)
def test_what_may_come_back_changed_is_laid_out_at_once(obj: Any) -> None:
    if isinstance(obj, list):
        obj[0].tag = "with an attribute"
    assert take_snapshot(obj) is None


def test_a_tensor_with_hooks_is_laid_out_at_once() -> None:
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(lambda gradient: gradient)
    assert take_snapshot([weight]) is None


@pytest.mark.parametrize("size_bytes", [0, 8])
def test_a_tensor_whose_storage_was_freed_or_cut_is_laid_out_at_once(size_bytes: int) -> None:
    """Restored, it would have a storage of the tensor's length, filled with anything."""
    weight = torch.ones(3, 2)[:, 1]
    weight.untyped_storage().resize_(size_bytes)
    assert take_snapshot([weight]) is None
