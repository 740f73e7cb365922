"""Saving: the object's bytes are the library's, and what it refuses is refused."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch
from stored_tensors import every_dtype, filled, same_tensors
from torch._subclasses.fake_tensor import FakeTensorMode

from torchbucket import ConfigError, open_store
from torchbucket.safetensors import load_file, save_file

METADATA = {'for"mat\n\u2028': "p\u00e9t\x01\\/"}


@pytest.mark.parametrize("metadata", [None, {}, METADATA])
def test_the_bytes_are_those_of_the_library(bucket, metadata):
    tensors = every_dtype()
    info = save_file(tensors, f"{bucket}/dir/m.safetensors", metadata)
    data = bytes(open_store(bucket).read("dir/m.safetensors").data)
    assert data == safetensors.torch.save(tensors, metadata)
    assert (info.key, info.size_bytes) == ("dir/m.safetensors", len(data))
    assert same_tensors(load_file(f"{bucket}/dir/m.safetensors"), tensors)


def test_every_dtype_of_this_torch_that_the_library_knows_is_known(bucket):
    """So that a newer safetensors or torch is noticed."""
    unknown = set()
    for name in dir(torch):
        dtype = getattr(torch, name)
        if isinstance(dtype, torch.dtype) and dtype in safetensors.torch._SIZE:
            try:
                save_file({"a": torch.empty((2, 4), dtype=dtype)}, f"{bucket}/k")
            except ConfigError:
                unknown.add(name)
    assert not unknown


def test_parameters_views_and_lazy_bits_are_saved_as_they_read(bucket):
    base = torch.randn(4, 4)
    complex_numbers = torch.randn(3, dtype=torch.complex64)
    tensors = {
        "parameter": torch.nn.Parameter(torch.randn(2, 2)),
        "row": base[1],
        "other rows": base[2:],
        "conjugate": complex_numbers.conj(),
        "negative": torch.randn(3, dtype=torch.complex64).conj().imag.contiguous(),
        "one": torch.ones(1).expand(1),
    }
    save_file(tensors, f"{bucket}/m")
    loaded = load_file(f"{bucket}/m")
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {
        name: tensor.tolist() for name, tensor in tensors.items()
    }
    assert not loaded["parameter"].requires_grad


def test_no_tensor_is_copied(bucket, monkeypatch):
    seen = []

    def write_from(self, key, pieces, **conditions):
        seen.extend(pieces)

    monkeypatch.setattr("torchbucket.store.base.BaseStore.write_from", write_from)
    tensor = torch.zeros(4)
    save_file({"a": tensor}, f"{bucket}/m")
    tensor.fill_(1)
    assert bytes(seen[1]) == torch.ones(4).numpy().tobytes()


def test_tensors_of_other_devices_are_sent_one_by_one(bucket, monkeypatch):
    tensors = {"a": filled((3,), torch.float32), "b": filled((2, 2), torch.int64)}
    monkeypatch.setattr("torchbucket.safetensors.saving._on_cpu", lambda tensor: False)
    monkeypatch.setattr("torchbucket.store.base.BaseStore.write_from", None)
    save_file(tensors, f"{bucket}/m", {"a": "b"})
    assert bytes(open_store(bucket).read("m").data) == safetensors.torch.save(tensors, {"a": "b"})


def held(count: int, start: int = 0) -> torch.Tensor:
    """A tensor of 4 numbers, or a part of it, whose storage was cut since, as that of a parameter that is sharded."""
    tensor = torch.ones(4)[start:]
    tensor.untyped_storage().resize_(4 * count)
    return tensor


SHARED = torch.ones(4)
REFUSED = {
    "a list": ([torch.ones(1)], "must be a dict"),
    "no tensor": ({"w": 1.5}, "'w' must be a torch.Tensor; got float"),
    "no name": ({3: torch.ones(1)}, "name is a text"),
    "half a character": ({"\ud800": torch.ones(1)}, "name is a text"),
    "the metadata's name": ({"__metadata__": torch.ones(1)}, "__metadata__"),
    "sparse": ({"w": torch.eye(2).to_sparse()}, "'w' is sparse"),
    "not contiguous": ({"w": torch.ones(2, 3).t()}, "'w' is not contiguous"),
    "expanded": ({"w": torch.ones(1).expand(3)}, "'w' is not contiguous"),
    "no data": ({"w": torch.ones(2, device="meta")}, "device meta"),
    "freed": ({"w": held(0)}, "'w' has 16 bytes by its shape, and its storage 0"),
    "cut": ({"w": held(3)}, "'w' has 16 bytes by its shape, and its storage 12"),
    "a view of what was cut": ({"w": held(3, 2)}, "'w' has 8 bytes by its shape, and its storage 12"),
    "without a shape": ({"w": torch.nn.LazyLinear(2).weight}, "'w' is a parameter without a shape"),
    "unknown dtype": ({"w": torch.ones(2, dtype=torch.complex128)}, "complex128"),
    "the same": ({"a": SHARED, "b": SHARED}, "'a' and 'b' share memory"),
    "a part": ({"a": SHARED[:3], "b": SHARED[2:]}, "'a' and 'b' share memory"),
    "within": ({"a": SHARED, "b": SHARED[1:2], "c": torch.ones(2)}, "'a' and 'b' share memory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_library_refuses_is_refused_before_anything_is_sent(bucket, case):
    tensors, message = REFUSED[case]
    # The library writes what nobody can read, or reads what is not the tensor's.
    if case not in ("the metadata's name", "half a character", "cut", "a view of what was cut"):
        with pytest.raises(Exception):  # noqa: B017  # it has no class for all of them
            safetensors.torch.save(tensors)
    with pytest.raises(ConfigError, match=message):
        save_file(tensors, f"{bucket}/m")
    assert list(open_store(bucket).list()) == []


def test_fake_tensors_are_refused(bucket):
    with FakeTensorMode():
        tensor = torch.ones(4)
    with pytest.raises(ConfigError, match="'w' is a FakeTensor"):
        save_file({"w": tensor}, f"{bucket}/m")


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"a": "\ud800"}, ["a"], "a"])
def test_metadata_that_is_no_texts_is_refused(bucket, metadata):
    with pytest.raises(ConfigError, match="metadata must be"):
        save_file({"a": torch.ones(1)}, f"{bucket}/m", metadata)


@pytest.mark.parametrize("uri", ["memory://bucket", "memory://bucket/", "memory://bucket/dir/", "nowhere", 3])
def test_an_address_that_names_no_object_is_refused(uri):
    with pytest.raises(ConfigError):
        save_file({"a": torch.ones(1)}, uri)


def test_settings_of_another_kind_are_refused(bucket):
    with pytest.raises(ConfigError, match="StoreConfig"):
        save_file({}, f"{bucket}/m", config={"region": "eu-west-1"})
    with pytest.raises(ConfigError, match="StoreConfig"):
        load_file(f"{bucket}/m", config={"region": "eu-west-1"})
