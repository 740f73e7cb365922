"""What was saved is loaded as torch loads it, by each of the ways: in place, as a file."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from late_store import LateStore
from saved_objects import OBJECTS, TRUSTED, Reading, assert_same, torch_bytes

from torchbucket import ConfigError, load
from torchbucket.checkpoint import load_from
from torchbucket.store import Store, open_store

WAYS = ("in place", "in pieces", "by an unknown torch")
FORMATS: dict[str, dict[str, Any]] = {
    "zip": {},
    "zip, protocol 4": {"pickle_protocol": 4},
    "legacy": {"_use_new_zipfile_serialization": False},
}
# What torch cannot hold in its older format: it makes the tensors first and reads their storages afterwards.
UNLOADABLE = {("legacy", name) for name in ("numbers", "quantized", "nested", "one that looks")}


@pytest.fixture
def store() -> Store:
    return LateStore(open_store("memory://loading"))


@pytest.fixture(params=WAYS)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    loading = "torchbucket.checkpoint.loading"
    if request.param == "in pieces":
        monkeypatch.setattr(f"{loading}.storage_records", lambda _file: None)
    elif request.param == "by an unknown torch":
        original = torch.serialization._load

        def changed(archive: Any, where: Any, module: Any, **options: Any) -> Any:
            return original(archive, where, module, **options)

        monkeypatch.setattr(torch.serialization, "_load", changed)


@pytest.mark.usefixtures("_way")
@pytest.mark.filterwarnings("ignore")  # of prototypes among tensors, of protocol 4
def test_everything_is_loaded_as_torch_loads_it(store: Store) -> None:
    for form, options in FORMATS.items():
        for name, make in {**OBJECTS, **TRUSTED}.items():
            if (form, name) in UNLOADABLE:
                continue
            saved = torch_bytes(make(), **options)
            store.write("k", saved)
            trusted = name in TRUSTED
            try:
                wanted = torch.load(io.BytesIO(saved), weights_only=not trusted)
            except Exception as error:  # noqa: BLE001  # what torch cannot load, nobody can
                with pytest.raises(type(error)):
                    load_from(store, "k", weights_only=not trusted)
                continue
            print(form, name)  # for the report of a failure
            assert_same(load_from(store, "k", weights_only=not trusted), wanted)
            if form == "zip" and not trusted:
                assert_same(
                    load_from(store, "k", weights_only=False), torch.load(io.BytesIO(saved), weights_only=False)
                )


@pytest.mark.usefixtures("_way")
def test_map_location(store: Store) -> None:
    saved = torch_bytes({"weight": torch.arange(50.0), "bias": torch.nn.Parameter(torch.ones(3))})
    store.write("k", saved)
    locations: list[Any] = [None, "cpu", torch.device("cpu"), {"cuda:0": "cpu"}, {}, "meta", torch.device("meta")]
    locations += [{"cpu": "meta"}, lambda storage, _location: storage, lambda _storage, _location: None]
    locations += [lambda storage, _location: storage.clone()]
    for location in locations:
        found = load_from(store, "k", map_location=location)
        assert_same(found, torch.load(io.BytesIO(saved), map_location=location))
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        load_from(store, "k", map_location="nowhere")


@pytest.mark.usefixtures("_way")
def test_a_file_of_the_other_byte_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sys.byteorder", "big")
        saved = torch_bytes([torch.arange(100), torch.arange(9, dtype=torch.int16), torch.tensor(1.5)])
    store.write("k", saved)
    found = load_from(store, "k")
    assert_same(found, torch.load(io.BytesIO(saved)))
    assert found[0][1] == 1 << 56


def test_tensors_without_content_cost_no_read_of_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("k", torch_bytes({"weight": torch.ones(1 << 20)}))
    monkeypatch.setattr(LateStore, "submit_read_into", None)
    assert load_from(store, "k", map_location="meta")["weight"].is_meta
    with torch.serialization.skip_data():
        assert load_from(store, "k")["weight"].shape == (1 << 20,)
    with torch._subclasses.FakeTensorMode():
        assert isinstance(load_from(store, "k")["weight"], torch._subclasses.FakeTensor)


def test_a_refused_class_is_told_before_the_bytes_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("k", torch_bytes([torch.ones(1 << 20), Reading(torch.ones(2))]))
    monkeypatch.setattr(LateStore, "submit_read_into", None)
    with pytest.raises(Exception, match="Reading was not an allowed global") as raised:
        load_from(store, "k")
    assert type(raised.value).__name__ == "UnpicklingError"
    assert "memory://loading/k" in raised.value.__notes__[0]


def test_an_allowed_class(store: Store) -> None:
    store.write("k", torch_bytes(Reading(torch.arange(1000.0))))
    with torch.serialization.safe_globals([Reading]):
        assert load_from(store, "k").total == 499500


def test_a_whole_object_by_its_address(store: Store) -> None:
    store.write("run/1.pt", torch_bytes({"step": torch.tensor(7)}))
    assert load("memory://loading/run/1.pt")["step"] == 7
    with pytest.raises(ConfigError, match="cannot be mapped"):
        load("memory://loading/run/1.pt", mmap=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_program_of_torch_is_refused_or_run_as_torch_does(store: Store) -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    store.write("k", file.getvalue())
    with pytest.warns(UserWarning, match="TorchScript"), pytest.raises(RuntimeError, match="TorchScript"):
        load_from(store, "k")
    with pytest.warns(UserWarning, match="TorchScript"):
        module: Callable[..., Any] = load_from(store, "k", weights_only=False)
    assert module(torch.ones(1, 2)).shape == (1, 2)
