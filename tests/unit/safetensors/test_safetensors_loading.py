"""Loading, lazy handles and streams: the right bits, each tensor its own, and no more bytes than are needed."""

from __future__ import annotations

import gc
import os
import pickle
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

import pytest
import safetensors
import safetensors.torch
import torch
from stored_tensors import every_dtype, file_of, filled, same_bits, same_tensors

from torchbucket import (
    CheckpointError,
    ConfigError,
    ObjectChangedError,
    ObjectInfo,
    Store,
    StoreError,
    TransportError,
    open_store,
)
from torchbucket.safetensors import load_file, safe_open, save_file, stream
from torchbucket.safetensors.streaming import arriving
from torchbucket.safetensors.tensors import empty_tensor
from torchbucket.store.protocol import Target
from torchbucket.store.wrappers import MeteredStore

MIB = 1 << 20


def read_bytes(metered: MeteredStore) -> int:
    return metered.usage().total.read_bytes


@pytest.fixture
def saved(bucket) -> str:
    """A file of the library's with each dtype."""
    open_store(bucket).write("m.safetensors", safetensors.torch.save(every_dtype(), {"format": "pt"}))
    return f"{bucket}/m.safetensors"


def test_all_ways_give_the_bits_that_were_saved(saved):
    tensors = every_dtype()
    assert same_tensors(load_file(saved), tensors)
    assert same_tensors(dict(stream(saved)), tensors)
    with safe_open(saved, framework="pt", device="cpu") as opened:
        assert opened.keys() == sorted(tensors)
        assert sorted(opened.offset_keys()) == sorted(tensors)
        assert opened.metadata() == {"format": "pt"}
        assert same_tensors(opened.get_tensors(), tensors)
        assert same_tensors({name: opened.get_tensor(name) for name in opened}, tensors)
        assert same_tensors({name: opened.get_slice(name)[...] for name in opened}, tensors)
        assert len(opened) == len(tensors) and "F32.matrix" in opened and "x" not in opened
    with pytest.raises(ValueError, match="closed"):
        opened.get_tensor("F32.matrix")


def test_a_handle_says_what_the_library_s_says(saved, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors.torch.save(every_dtype(), {"format": "pt"}))
    opened = safe_open(saved)
    with safetensors.safe_open(path, "pt") as theirs:
        assert opened.keys() == theirs.keys()
        assert opened.offset_keys() == theirs.offset_keys()
        assert opened.metadata() == theirs.metadata()
        for name in theirs.keys():  # noqa: SIM118  # it is no dict
            one, other = opened.get_slice(name), theirs.get_slice(name)
            assert (one.get_shape(), one.get_dtype()) == (other.get_shape(), other.get_dtype())
            assert same_bits(opened.get_tensor(name), theirs.get_tensor(name))


def test_loaded_tensors_are_in_the_order_of_their_bytes(bucket, reads):
    reads.holds, reads.last = {0}, 10
    names = safe_open(f"{bucket}/m").offset_keys()
    assert list(dict(stream(f"{bucket}/m"))) != names
    reads.asked = []
    assert list(load_file(f"{bucket}/m", "meta")) == names
    reads.holds = set()
    assert list(load_file(f"{bucket}/m")) == names


def test_loaded_tensors_own_writable_memory(saved):
    with torch.device("meta"):  # The default device is not asked.
        loaded = load_file(saved)
    for tensor in loaded.values():
        assert tensor.device.type == "cpu"
        assert tensor._base is None
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
    loaded["F32.matrix"].mul_(2)
    assert len({tensor.data_ptr() for tensor in loaded.values() if tensor.numel()}) == len(
        [tensor for tensor in loaded.values() if tensor.numel()]
    )


def test_another_device(saved):
    for loaded in (
        load_file(saved, "meta"),
        dict(stream(saved, device="meta")),
        safe_open(saved, device="meta").get_tensors(),
    ):
        assert {tensor.device.type for tensor in loaded.values()} == {"meta"}
        assert {name: tensor.shape for name, tensor in loaded.items()} == {
            name: tensor.shape for name, tensor in every_dtype().items()
        }


def test_one_tensor_costs_the_header_and_its_bytes(bucket, metered):
    tensors = {f"layer.{number}": filled((256, 1024), torch.float32, number) for number in range(16)}
    save_file(tensors, f"{bucket}/m")
    before = read_bytes(metered)
    with safe_open(f"{bucket}/m") as opened:
        header = read_bytes(metered) - before
        assert header <= 64 << 10
        assert same_bits(opened.get_tensor("layer.7"), tensors["layer.7"])
        assert read_bytes(metered) - before == header + MIB
        assert same_bits(opened.get_slice("layer.3")[10:12], tensors["layer.3"][10:12])
        assert read_bytes(metered) - before == header + MIB + 2 * 4096


def test_a_long_header_takes_a_second_request(bucket, metered):
    tensors = {f"{'long ' * 20}{number}": torch.tensor([number]) for number in range(2000)}
    save_file(tensors, f"{bucket}/m")
    assert same_tensors(load_file(f"{bucket}/m"), tensors)
    assert metered.usage().operations["submit_read"].calls == 2


def test_a_column_of_many_rows_is_read_in_pieces(bucket, metered, monkeypatch):
    """What lies between is read where asking around costs more, but never all in memory at once."""
    monkeypatch.setattr("torchbucket.safetensors.handle._BLOCK_BYTES", 100_000)
    tensors = {"a": filled((1000, 500), torch.float32), "far": filled((3, 200_000), torch.int16)}
    save_file(tensors, f"{bucket}/m")
    opened = safe_open(f"{bucket}/m")
    before = metered.usage().operations.get("submit_read_into")
    assert before is None
    assert same_bits(opened.get_slice("a")[:, 3], tensors["a"][:, 3])
    used = metered.usage().operations["submit_read_into"]
    assert used.calls == 20
    assert used.read_bytes <= 1000 * 2000
    assert same_bits(opened.get_slice("far")[:, 5:7], tensors["far"][:, 5:7])
    assert metered.usage().operations["submit_read_into"].read_bytes == used.read_bytes + 3 * 4


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (5, IndexError),
        (-4, IndexError),
        ((0, 0, 0), IndexError),
        ((..., ...), IndexError),
        (slice(None, None, -1), ValueError),
        (slice(None, None, 0), ValueError),
        (None, TypeError),
        (True, TypeError),
        ([0, 1], TypeError),
        (1.0, TypeError),
        ("a", TypeError),
        (torch.tensor([0, 1]), TypeError),
    ],
)
def test_an_index_that_fits_not_is_refused(bucket, index, kind):
    save_file({"a": torch.ones(3, 4)}, f"{bucket}/m")
    with pytest.raises(kind):
        safe_open(f"{bucket}/m").get_slice("a")[index]


def test_an_absent_tensor_is_named_with_its_file(saved):
    opened = safe_open(saved)
    for call in (opened.get_tensor, opened.get_slice, lambda name: opened.get_tensors(["F32.matrix", name])):
        with pytest.raises(CheckpointError, match=r"m\.safetensors has no tensor 'w\\n'"):
            call("w\n")


def test_arguments_that_mean_nothing_are_refused(saved):
    with pytest.raises(ConfigError, match="framework"):
        safe_open(saved, "np")
    for budget_bytes in (0, -1, 1.5, None):
        with pytest.raises(ConfigError, match="budget_bytes"):
            stream(saved, budget_bytes=budget_bytes)
    with pytest.raises(RuntimeError):
        load_file(saved, "no such device")
    with pytest.raises(TypeError, match="use get_tensor for one"):
        safe_open(saved).get_tensors("F32.matrix")


def test_an_overwritten_object_is_never_mixed(saved, bucket):
    opened = safe_open(saved)
    arriving = stream(saved, budget_bytes=8)
    next(arriving)
    changed = {name: filled(tuple(tensor.shape), tensor.dtype, 99) for name, tensor in every_dtype().items()}
    open_store(bucket).write("m.safetensors", safetensors.torch.save(changed, {"format": "pt"}))
    with pytest.raises(ObjectChangedError):
        opened.get_tensor("F32.matrix")
    with pytest.raises(ObjectChangedError):
        opened.get_slice("F32.matrix")[0]
    with pytest.raises(ObjectChangedError):
        list(arriving)


@pytest.mark.parametrize("way", ["tensor", "range", "ranges", "stream"])
def test_a_failed_read_keeps_no_memory(saved, bucket, monkeypatch, way):
    """Whoever tries again has no memory for twice the checkpoint."""
    made: list[weakref.ref[torch.Tensor]] = []

    def empty(*arguments):
        tensor = empty_tensor(*arguments)
        made.append(weakref.ref(tensor))
        return tensor

    for module in ("loading", "streaming", "handle"):
        monkeypatch.setattr(f"torchbucket.safetensors.{module}.empty_tensor", empty)
    opened = safe_open(saved)
    read = {
        "tensor": lambda: opened.get_tensor("F32.matrix"),
        "range": lambda: opened.get_slice("F32.matrix")[1:],
        "ranges": lambda: opened.get_slice("F32.matrix")[::2],
        "stream": lambda: list(arriving(opened._found, torch.device("cpu"))),
    }[way]
    open_store(bucket).write("m.safetensors", bytes(10))
    gc.collect()
    gc.disable()
    try:
        with suppress(ObjectChangedError):
            read()
        assert made
        assert [tensor for reference in made if (tensor := reference()) is not None] == []
    finally:
        gc.enable()


def test_deterministic_algorithms_change_nothing(saved):
    """torch fills new memory then, and cannot for some dtypes."""
    torch.use_deterministic_algorithms(True)
    try:
        loaded = load_file(saved)
        untouched = empty_tensor((0, 3), torch.float32), empty_tensor((2, 3), torch.float32)
        assert [tensor.stride() for tensor in untouched] == [torch.empty(0, 3).stride(), (3, 1)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert same_tensors(loaded, every_dtype())


def test_dimensions_without_end_cost_no_more_than_their_header(bucket):
    """A header may have millions: a minute for 16,000 of them is a program that hangs."""
    shape = [1] * 100_000
    header = {"a": {"dtype": "U8", "shape": shape, "data_offsets": [0, 1]}}
    open_store(bucket).write("m", file_of(header, b"x"))
    assert load_file(f"{bucket}/m")["a"].ndim == 100_000
    assert safe_open(f"{bucket}/m").get_slice("a")[...].ndim == 100_000


def test_a_handle_crosses_to_another_process(saved, bucket):
    copy = pickle.loads(pickle.dumps(safe_open(saved)))
    assert same_bits(copy.get_tensor("F32.matrix"), every_dtype()["F32.matrix"])
    assert "safetensors" in repr(copy) and "F32.matrix" in repr(copy.get_slice("F32.matrix"))


def test_dtypes_without_a_torch_dtype_stop_only_who_reads_them(bucket):
    header = {
        "f6": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]},
        "odd": {"dtype": "F4", "shape": [2, 1], "data_offsets": [3, 4]},
        "b": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]},
    }
    open_store(bucket).write("m", file_of(header, b"abcdXY"))
    opened = safe_open(f"{bucket}/m")
    assert opened.get_tensor("b").tolist() == [88, 89]
    for name, message in (("f6", "F6_E2M3, which torch"), ("odd", "divisible by 2")):
        for call in (opened.get_tensor, lambda name: opened.get_slice(name)[0]):
            with pytest.raises(CheckpointError, match=message):
                call(name)
    for whole in (load_file, stream):
        with pytest.raises(CheckpointError, match="F6_E2M3"):
            whole(f"{bucket}/m")


class HeldReads(MeteredStore):
    """Keeps some reads of tensors, by their numbers, until they are let go; notes how many bytes were asked for.

    With ``last`` they are let go when so many were asked for.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.holds: set[int] = set()
        self.held: list[tuple[Future[ObjectInfo], str, Sequence[Target], dict[str, object]]] = []
        self.asked: list[int] = []
        self.last: int | None = None

    def submit_read_into(self, key: str, targets: Sequence[Target], **options: object) -> Future[ObjectInfo]:
        self.asked.append(sum(len(memory) for _, memory in targets))
        if len(self.asked) - 1 not in self.holds:
            future = super().submit_read_into(key, targets, **options)
            if len(self.asked) == self.last:
                self.let_go()
            return future
        future = Future()
        self.held.append((future, key, targets, options))
        return future

    def let_go(self) -> None:
        for future, key, targets, options in self.held:
            future.set_result(super().submit_read_into(key, targets, **options).result())
        self.held = []


@pytest.fixture
def reads(bucket, monkeypatch) -> HeldReads:
    store = HeldReads(open_store(bucket))
    monkeypatch.setattr("torchbucket.safetensors.places.shared_store", lambda location, config: store)
    monkeypatch.setattr("torchbucket.safetensors.streaming._GROUP_BYTES", 2000)
    save_file(TENSORS, f"{bucket}/m")
    return store


TENSORS = {f"t{number:02}": filled((1000,), torch.uint8, number) for number in range(20)}


def test_tensors_come_as_they_arrive_within_the_budget(bucket, reads):
    reads.holds = {0}
    found = {}
    for name, tensor in stream(f"{bucket}/m", budget_bytes=6000):
        found[name] = tensor
        assert sum(reads.asked) - 1000 * len(found) <= 6000
        if len(found) == 18:
            reads.let_go()
    assert same_tensors(found, TENSORS)
    assert list(found) == [*list(TENSORS)[2:], "t00", "t01"]
    assert reads.asked == [2000] * 10


def test_a_tensor_beyond_the_budget_is_read_by_itself(bucket, reads):
    assert same_tensors(dict(stream(f"{bucket}/m", budget_bytes=10)), TENSORS)
    assert reads.asked == [1000] * 20


def test_tensors_of_a_stream_are_freed_when_they_are_dropped(bucket, reads):
    alive = []
    for _, tensor in stream(f"{bucket}/m", budget_bytes=2000):
        assert sum(reference() is not None for reference in alive) <= 1
        alive.append(weakref.ref(tensor))


@pytest.mark.parametrize("way", ["close", "drop", "raise"])
def test_leaving_a_stream_ends_its_reads(bucket, reads, way):
    reads.holds = {1, 2}
    arriving = stream(f"{bucket}/m", budget_bytes=6000)
    next(arriving)
    if way == "close":
        arriving.close()
    elif way == "raise":
        with pytest.raises(KeyError):
            arriving.throw(KeyError("enough"))
    del arriving
    assert len(reads.held) == 2
    assert all(future.cancelled() for future, *_ in reads.held)
    assert len(reads.asked) == 3


def test_a_failed_read_surfaces_in_the_iterator_and_ends_the_others(bucket, reads):
    reads.holds = {1, 2}
    arriving = stream(f"{bucket}/m", budget_bytes=6000)
    assert [next(arriving)[0], next(arriving)[0]] == ["t00", "t01"]
    reads.held[0][0].set_exception(StoreError("the network is down"))
    with pytest.raises(StoreError, match="network is down"):
        list(arriving)
    assert reads.held[1][0].cancelled()
    assert list(arriving) == []


def test_a_stream_does_not_cross_a_fork(bucket, reads):
    """In a child, whose parent gets the answers, the iterator raises rather than wait for ever."""
    arriving = stream(f"{bucket}/m")
    next(arriving)
    child = os.fork()
    if not child:
        try:
            next(arriving)
        except TransportError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(arriving)) == 19


@pytest.mark.parametrize("names", [["t07"], ["t19", "t00", "t19"], list(TENSORS)])
def test_several_tensors_are_asked_for_at_once(bucket, reads, names):
    assert same_tensors(safe_open(f"{bucket}/m").get_tensors(names), {name: TENSORS[name] for name in names})
    assert len(reads.asked) == 1
