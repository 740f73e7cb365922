"""A checkpoint sent from the tensors' own memory is what torch would have written; so is what goes the plain way."""

from __future__ import annotations

import dataclasses
import io
import itertools
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchbucket
from torchbucket.checkpoint.archive import lay_out
from torchbucket.store import open_store

STORE = open_store("memory://archives")
_keys = itertools.count()


class Scaled(torch.Tensor):
    """A subclass without anything of its own."""


@dataclasses.dataclass
class Recipe:
    """Makes its tensors when it is pickled: nobody else keeps them."""

    numbers: int

    def __getstate__(self) -> dict[str, Any]:
        return {"numbers": self.numbers, "made": [torch.full((5000,), float(n)) for n in range(self.numbers)]}


class OwnPickle:
    """A module in the place of ``pickle``, as ``torch.save`` takes one."""

    Pickler, dump, dumps, load, loads, __name__ = pickle.Pickler, pickle.dump, pickle.dumps, 0, 0, "own"


def shared() -> Any:
    whole = torch.arange(1000.0)
    return {"whole": whole, "part": whole[3:9], "grid": whole.view(10, 100).t(), "again": [whole]}


def dtypes() -> Any:
    return {str(dtype): torch.ones(7).to(dtype) for dtype in vars(torch).values() if is_plain_dtype(dtype)}


def is_plain_dtype(dtype: object) -> bool:
    try:
        return isinstance(dtype, torch.dtype) and torch.ones(2).to(dtype).dtype == dtype
    except (RuntimeError, NotImplementedError, TypeError):
        return False


def trained() -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 20)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "name": "ü"}


def tagged() -> Any:
    tensor = torch.ones(3)
    tensor.tag = "with an attribute"  # type: ignore[attr-defined]
    return tensor


def quantized() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.arange(9.0), 0.5, 0, torch.qint8)


def typed_storage() -> Any:
    return torch.storage.TypedStorage(
        wrap_storage=torch.arange(4.0).untyped_storage(), dtype=torch.float32, _internal=True
    )


def nested() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


IN_PLACE: dict[str, Callable[[], Any]] = {
    "a tensor": lambda: torch.arange(10.0),
    "shared storages": shared,
    "no elements": lambda: {"none": torch.empty(0), "rows": torch.empty(0, 5), "one": torch.tensor(3)},
    "every dtype": dtypes,
    "a training's state": trained,
    "a module": lambda: torch.nn.Linear(3, 4),
    "parameters": lambda: [torch.nn.Parameter(torch.ones(3)), torch.ones(2, requires_grad=True)],
    "not contiguous": lambda: [torch.ones(6, 7)[:, ::2], torch.ones(1).expand(4, 5), torch.ones(4, 5).t()],
    "sparse": lambda: [torch.eye(5).to_sparse(), torch.eye(5).to_sparse_csr()],
    "conjugate, negative": lambda: [
        torch.ones(3, dtype=torch.complex64).conj(),
        torch.ones(3, dtype=torch.complex64).conj().imag,
    ],
    "an attribute": tagged,
    "storages": lambda: [torch.arange(5.0).untyped_storage(), typed_storage()],
    "tensors made while pickled": lambda: Recipe(9),
    "no tensor": lambda: {"epoch": 1, "text": "x" * 10_000, "array": np.arange(5)},
    "nothing": lambda: None,
}
PLAIN: dict[str, Callable[[], Any]] = {
    "a subclass": lambda: [torch.ones(4), torch.ones(3).as_subclass(Scaled)],
    "quantized": quantized,
    "nested": nested,
    "meta": lambda: [torch.ones(4), torch.empty(3, device="meta")],
}


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        assert (type(found), found.dtype, found.layout, found.device) == (
            type(expected),
            expected.dtype,
            expected.layout,
            expected.device,
        )
        assert (found.requires_grad, vars(found)) == (expected.requires_grad, vars(expected))
        if expected.is_nested:
            return same(list(found.unbind()), list(expected.unbind()))
        if expected.device.type == "meta":
            return found.shape == expected.shape
        if expected.layout == torch.strided and not expected.is_quantized:
            assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
            return same(found.untyped_storage(), expected.untyped_storage())
        if expected.layout != torch.strided:
            return torch.equal(found.to_dense(), expected.to_dense())
        return torch.equal(found, expected)
    if isinstance(expected, torch.UntypedStorage | torch.storage.TypedStorage):
        return content_of(found) == content_of(expected)
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, np.ndarray):
        return np.array_equal(found, expected)
    if isinstance(expected, torch.nn.Module | Recipe):
        return same(vars(found), vars(expected))
    assert found == expected
    return True


def content_of(storage: Any) -> bytes:
    return torch.empty(0, dtype=torch.uint8).set_(storage.untyped()).numpy().tobytes()


def saved(obj: Any, **options: Any) -> bytes:
    key = f"{next(_keys)}.pt"
    info = torchbucket.save(obj, f"memory://archives/{key}", **options)
    content = bytes(STORE.read(key).data)
    assert (info.key, info.size_bytes) == (key, len(content))
    return content


def by_torch(obj: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


def loaded(content: bytes, **options: Any) -> Any:
    return torch.load(io.BytesIO(content), **{"weights_only": False, **options})


@pytest.fixture(params=["in place", "on a device", "an older torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The second copies storages to the host one by one; the third cannot lay out an archive without its data."""
    if request.param == "on a device":
        on_device = "torchbucket.checkpoint.archive._is_on_device"
        monkeypatch.setattr(on_device, lambda piece: not isinstance(piece, bytearray))
    if request.param == "an older torch":
        monkeypatch.delattr(torch.serialization, "skip_data")
    return str(request.param)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in {**IN_PLACE, **PLAIN}.items()])
def test_what_is_saved_loads_as_what_torch_saves(make: Callable[[], Any], way: str, tmp_path: Path) -> None:
    obj = make()
    archive = lay_out(obj, 2)
    assert (archive is not None) == (way != "an older torch" and make in IN_PLACE.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's own would be there twice, those of its ways without data at all
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        warnings.filterwarnings("ignore", "Sparse CSR|.*NestedTensor|.*nested tensors")
        content = saved(obj)
    expected = loaded(by_torch(obj))
    assert same(loaded(content), expected)
    assert len(content) == len(by_torch(obj))
    path = tmp_path / "mapped.pt"
    path.write_bytes(content)
    if not isinstance(obj, list) or not any(map(torch.is_storage, obj)):  # of which torch itself maps none
        assert same(torch.load(path, mmap=True, weights_only=False), expected)
    try:
        safely = loaded(by_torch(obj), weights_only=True)
    except pickle.UnpicklingError:
        with pytest.raises(pickle.UnpicklingError):
            loaded(content, weights_only=True)
    else:
        assert same(loaded(content, weights_only=True), safely)


@pytest.mark.parametrize(
    "options", [{"pickle_protocol": 4}, {"pickle_module": OwnPickle}, {"_use_new_zipfile_serialization": False}]
)
def test_the_options_of_torch(options: dict[str, Any]) -> None:
    obj = trained()
    content = saved(obj, **options)
    assert same(loaded(content), obj)
    assert content.startswith(by_torch(obj, **options)[:100])


def test_each_record_is_where_and_what_torch_makes_it() -> None:
    obj = {"a": torch.arange(1000.0), "b": torch.ones(3, dtype=torch.int8), "none": torch.empty(0), "n": 5}
    ours, theirs = (zipfile.ZipFile(io.BytesIO(content)) for content in (saved(obj), by_torch(obj)))
    assert [info.filename for info in ours.infolist()] == [info.filename for info in theirs.infolist()]
    for found, expected in zip(ours.infolist(), theirs.infolist(), strict=True):
        fields = ("header_offset", "file_size", "compress_size", "compress_type", "flag_bits")
        assert [getattr(found, name) for name in fields] == [getattr(expected, name) for name in fields]
        if "/data/" in found.filename:
            assert found.CRC == 0
        elif "serialization_id" not in found.filename:
            assert found.CRC == expected.CRC
    # Which a scanner of pickles reads, and which zipfile checks.
    assert ours.read("archive/data.pkl") == theirs.read("archive/data.pkl")
    assert ours.read("archive/byteorder") == theirs.read("archive/byteorder")
    assert theirs.getinfo("archive/data/0").header_offset > 0


def test_nothing_is_copied() -> None:
    tensors = [torch.ones(1000), torch.zeros(50)]
    archive = lay_out({"tensors": tensors, "view": tensors[0][5:]}, 2)
    assert archive is not None
    places = [(torch.frombuffer(view, dtype=torch.uint8).data_ptr(), len(view)) for view in archive.views() if view]
    assert [place for place in places if place[0] == tensors[0].data_ptr()] == [(tensors[0].data_ptr(), 4000)]
    assert (tensors[1].data_ptr(), 200) in places


def test_what_is_being_sent_stays_where_it_is() -> None:
    """A transport that is interrupted may read on for a moment, when nobody else keeps the tensors any more."""
    archive = lay_out([torch.full((100_000,), 3, dtype=torch.uint8)], 2)
    assert archive is not None
    (view,) = (view for view in archive.views() if len(view) == 100_000)
    del archive
    taken = [torch.zeros(100_000, dtype=torch.uint8) for _ in range(20)]
    assert view == b"\3" * 100_000
    del taken


def test_the_settings_of_torch_are_left_alone() -> None:
    before = torch.serialization.get_crc32_options()
    seen = []

    class Nosy:
        def __reduce__(self) -> Any:
            seen.append(torch.serialization.get_crc32_options())
            return int, (1,)

    saved([Nosy(), torch.ones(3)])
    assert seen == [before]
    assert torch.serialization.get_crc32_options() == before
    file = io.BytesIO()
    torch.save(torch.arange(3.0), file)  # with its data
    assert torch.equal(loaded(file.getvalue()), torch.arange(3.0))


def test_modes_under_which_torch_saves(way: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    tensor = torch.arange(5.0)
    for mode in (FakeTensorMode(), FlopCounterMode(display=False), torch.inference_mode(), torch.device("meta")):
        with mode:
            content = saved(tensor)
            future = torchbucket.save_async(tensor, "memory://archives/under-a-mode.pt")
        assert torch.equal(loaded(content), tensor)
        assert STORE.head(future.result().key).size_bytes == len(content)


@pytest.mark.parametrize("obj", [lambda: 0, [torch.ones(3), (n for n in "abc")]])
def test_what_torch_cannot_save_is_its_error(obj: Any, way: str) -> None:
    with pytest.raises(Exception, match=r".") as expected:
        by_torch(obj)
    with pytest.raises(type(expected.value)) as caught:
        torchbucket.save(obj, "memory://archives/unsaved.pt")
    assert str(caught.value) == str(expected.value)
    assert not list(STORE.list("unsaved.pt"))


def test_one_memory_as_two_types_is_refused_as_by_torch(way: str) -> None:
    tensor = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        torchbucket.save([tensor, tensor.view(torch.int32)], "memory://archives/two-types.pt")


def test_a_fake_tensor_is_refused_as_by_torch(way: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    with pytest.raises(Exception, match=r".") as expected:
        by_torch(fake)
    with pytest.raises(type(expected.value)):
        torchbucket.save(fake, "memory://archives/fake.pt")
