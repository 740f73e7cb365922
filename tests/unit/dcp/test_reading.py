"""What goes on between planning a load and its end: what is read for others, by each rank alone, and when it fails."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from saved_states import emptied, same, training_state
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem

from torchbucket import CheckpointError
from torchbucket.dcp import (
    BucketHuggingFaceReader,
    BucketHuggingFaceWriter,
    BucketStorageReader,
    BucketStorageWriter,
    batches,
    reader,
    sharing,
)
from torchbucket.dcp.item_layout import TensorLayout, layout_of
from torchbucket.dcp.sharing import key_of
from torchbucket.errors import StoreError
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore

STORE = open_store("memory://reading")
_numbers = itertools.count()


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the only rank of a group read everything for all."""
    monkeypatch.setattr(reader, "dealt", lambda plans, _: {key_of(item): 0 for item in plans[0].items})
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def new_uri() -> str:
    return f"memory://reading/run/step-{next(_numbers)}"


def save(state: Any, uri: str, **options: Any) -> None:
    dcp.save(state, storage_writer=BucketStorageWriter(uri, **options), no_dist=True)


class Renaming(DefaultLoadPlanner):
    """Loads one stored tensor under several names."""

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        stored = self.metadata.state_dict_metadata
        self.metadata.state_dict_metadata = dict.fromkeys(self.state_dict, stored["weight"])
        plan = super().create_local_plan()
        self.metadata.state_dict_metadata = stored
        for item in plan.items:
            object.__setattr__(item.storage_index, "fqn", "weight")
        return plan


@pytest.mark.usefixtures("shares")
def test_what_is_read_once_is_what_is_read() -> None:
    state, uri = training_state(), new_uri()
    save(state, uri)
    into = emptied(state)
    dcp.load(into, storage_reader=BucketStorageReader(uri, read_once=True))
    assert same(into, state)


@pytest.mark.usefixtures("shares")
def test_what_is_read_once_goes_to_every_place_that_wants_it() -> None:
    uri = new_uri()
    save({"weight": torch.arange(5.0)}, uri)
    into = {"one": torch.zeros(5), "other": torch.zeros(5, dtype=torch.float64), "lazy": torch.zeros(5)}
    dcp.load(into, storage_reader=BucketStorageReader(uri, read_once=True), planner=Renaming())
    assert all(torch.equal(tensor.float(), torch.arange(5.0)) for tensor in into.values())


@pytest.mark.usefixtures("shares")
def test_a_conjugate_is_handed_on() -> None:
    uri, into = new_uri(), {"weight": torch.zeros(3, dtype=torch.complex64).conj()}
    save({"weight": torch.full((3,), 1 + 2j)}, uri)
    dcp.load(into, storage_reader=BucketStorageReader(uri, read_once=True))
    assert torch.equal(into["weight"].resolve_conj(), torch.full((3,), 1 + 2j))


@pytest.mark.usefixtures("shares")
def test_where_one_value_cannot_be_taken_the_others_are_still_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the other ranks would wait for them."""
    uri, sent = new_uri(), 0
    save({"first": 1, "second": 2, "third": torch.ones(3)}, uri)
    broadcast = dist.broadcast

    def counted(*arguments: Any) -> None:
        nonlocal sent
        sent += 1
        broadcast(*arguments)

    class Refusing(DefaultLoadPlanner):
        def load_bytes(self, read_item: ReadItem, value: Any) -> None:
            raise ValueError(f"no {read_item.dest_index.fqn}")

    monkeypatch.setattr(dist, "broadcast", counted)
    into = {"first": 0, "second": 0, "third": torch.zeros(3)}
    with pytest.raises(dcp.CheckpointException, match=r"no (first|second)"):
        dcp.load(into, storage_reader=BucketStorageReader(uri, read_once=True), planner=Refusing())
    assert sent == 3


@pytest.mark.usefixtures("shares")
def test_another_group_than_the_one_that_loads_is_told() -> None:
    with pytest.raises(CheckpointError, match="2 ranks load together, and the reader's process_group has 1"):
        sharing.check_group(None, 2)


def test_a_process_that_loads_by_itself_waits_for_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(_: Any) -> None:
        raise AssertionError("the other ranks are not asked")

    uri, state = new_uri(), {"weight": torch.ones(3)}
    save(state, uri)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        monkeypatch.setattr(reader, "group_for_sharing", asked)
        into = emptied(state)
        dcp.load(into, storage_reader=BucketStorageReader(uri, read_once=True), no_dist=True)
    finally:
        dist.destroy_process_group()
    assert same(into, state)


def test_each_rank_reads_what_its_own_metadata_names() -> None:
    """Where each was by itself, the metadata of one does not tell of what the others have."""
    uri = new_uri()
    states = [{"one": torch.ones(3), "both": torch.zeros(2)}, {"other": torch.ones(5), "both": torch.ones(2)}]
    for rank, state in enumerate(states):
        writer, planner = BucketStorageWriter(uri), DefaultSavePlanner()
        planner.set_up_planner(state, is_coordinator=True)
        writer.set_up_storage_writer(True, rank=rank, use_collectives=False)
        plan = writer.prepare_local_plan(planner.create_local_plan())
        plans, metadata = planner.create_global_plan([plan])
        (plan,) = writer.prepare_global_plan(plans)
        writer.finish(metadata, [writer.write_data(planner.finish_plan(plan), planner).wait()])
    loads = []
    for rank, state in enumerate(states):
        one, loader, into = BucketStorageReader(uri), DefaultLoadPlanner(), emptied(state)
        metadata = one.read_metadata(rank=rank)
        loader.set_up_planner(into, metadata, rank == 0)
        one.set_up_storage_reader(metadata, rank == 0, rank=rank, use_collectives=False)
        loads.append((one, loader, into, one.prepare_local_plan(loader.create_local_plan())))
    decided = loads[0][0].prepare_global_plan([plan for *_, plan in loads])
    for (one, loader, into, _), own, state in zip(loads, decided, states, strict=True):
        assert own.storage_data.files
        one.read_data(loader.finish_plan(own), loader).wait()
        assert same(into, state)


class UnderWay(Future[Any]):
    """A read that ends when it is cancelled."""

    def cancel(self) -> bool:
        return super().cancel() and not self.set_running_or_notify_cancel()


def test_no_memory_is_filled_after_a_load_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that are under way are waited for, also where the next ones cannot be begun."""
    monkeypatch.setattr(batches, "_SCRATCH_BYTES", 2)
    uri, begun = new_uri(), list[UnderWay]()
    save({"first": torch.ones(3), "second": torch.ones(3)}, uri)

    def begin(*_: Any, **__: Any) -> Future[Any]:
        if begun:
            raise StoreError("no more")
        begun.append(UnderWay())
        return begun[0]

    monkeypatch.setattr(MemoryStore, "submit_read_into", begin)
    with pytest.raises(dcp.CheckpointException, match="no more"):
        dcp.load(
            {"first": torch.zeros(3), "second": torch.zeros(3)}, storage_reader=BucketStorageReader(uri), no_dist=True
        )
    assert begun[0].done()


def test_what_is_stored_apart_and_wanted_in_the_same_memory_is_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tied weights of a checkpoint in which they were not, and a tensor beside its view: the last one counts."""
    uri = new_uri()
    save({"a": torch.full((1000,), 1.0), "b": torch.full((1000,), 2.0), "c": torch.full((100,), 3.0)}, uri)
    memory = torch.zeros(1000)
    reads = {}
    submitted = MemoryStore.submit_read_into

    def noted(store: MemoryStore, key: str, targets: Any, **options: Any) -> Any:
        for _, target in targets:
            reads[id(target)] = torch.frombuffer(target, dtype=torch.uint8).data_ptr() if len(target) else 0
        return submitted(store, key, targets, **options)

    monkeypatch.setattr(MemoryStore, "submit_read_into", noted)
    into = {"a": memory, "b": memory, "c": memory[50:150]}
    dcp.load(into, storage_reader=BucketStorageReader(uri), no_dist=True)
    assert not any(memory.data_ptr() <= place < memory.data_ptr() + memory.nbytes for place in reads.values())
    assert torch.equal(memory[150:], torch.full((850,), 2.0))
    assert torch.equal(memory[50:150], torch.full((100,), 3.0))


def test_what_differs_twice_and_then_lies_elsewhere_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that was changed on its way until the last attempt, which shows that it is laid out otherwise."""
    state, uri = {"weight": torch.arange(100.0)}, new_uri()
    save(state, uri)
    sums = iter(["changed", "changed"])
    kept, begins = batches.SUM.of, TensorLayout.begins

    def of(content: Any) -> Any:
        changed = next(sums, None)
        return kept(content) if changed is None else kept([b"changed"])

    monkeypatch.setattr(batches, "SUM", SimpleNamespace(of=of, name=batches.SUM.name))
    asked = iter([False])
    monkeypatch.setattr(TensorLayout, "begins", lambda layout, found: next(asked, True) and begins(layout, found))
    into = emptied(state)
    dcp.load(into, storage_reader=BucketStorageReader(uri), no_dist=True)
    assert same(into, state)


def test_a_sparse_tensor_is_loaded() -> None:
    """PyTorch's writer refuses it."""
    state, uri = {"sparse": torch.eye(4).to_sparse()}, new_uri()
    save(state, uri)
    into = {"sparse": torch.zeros(4, 4).to_sparse()}
    dcp.load(into, storage_reader=BucketStorageReader(uri), no_dist=True)
    assert torch.equal(into["sparse"].to_dense(), torch.eye(4))


def test_rows_of_a_tensor_that_no_memory_is_enough_for_have_their_places() -> None:
    layout = layout_of(torch.uint8, (1 << 44,))
    assert layout is not None
    assert layout.payload_bytes == 1 << 44


@pytest.mark.parametrize(
    ("write", "make"),
    [(BucketStorageWriter, BucketStorageReader), (BucketHuggingFaceWriter, BucketHuggingFaceReader)],
)
def test_metadata_that_could_not_be_read_is_not_each_rank_s(
    write: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch asks for the rank's own then. Were it there, this rank would go on by itself, and the others wait."""
    uri = new_uri()
    dcp.save({"weight": torch.ones(3)}, storage_writer=write(uri), no_dist=True)
    prefix = uri.removeprefix("memory://reading/")
    if write is BucketStorageWriter:
        STORE.copy(f"{prefix}/.metadata", f"{prefix}/__0.metadata")
    read, failures = MemoryStore.read, iter([StoreError("no answer", operation="read", uri=uri)])

    def once(store: MemoryStore, key: str, **options: Any) -> Any:
        if (failure := next(failures, None)) is not None:
            raise failure
        return read(store, key, **options)

    monkeypatch.setattr(MemoryStore, "read", once)
    with pytest.raises(dcp.CheckpointException, match="no answer"):
        dcp.load({"weight": torch.zeros(3)}, storage_reader=make(uri), no_dist=True)


def test_ranks_that_share_over_another_backend_make_one_group_beside_it() -> None:
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=1)
    try:
        first, second = (sharing.group_for_sharing(None) for _ in range(2))
        assert first is second is not dist.group.WORLD
    finally:
        dist.destroy_process_group()
