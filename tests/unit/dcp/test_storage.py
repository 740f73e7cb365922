"""Either side reads what the other wrote: ours, PyTorch's own, and s3torchconnector's way of it."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from saved_states import emptied, same, training_state
from torch.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner

from torchbucket import CheckpointError, ConfigError, NotFoundError, PermissionDeniedError
from torchbucket.dcp import BinaryPrefixes, BucketStorageReader, BucketStorageWriter, HexPrefixes, RoundRobinPrefixes
from torchbucket.dcp.item_reading import _WholeTensor
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore

STORE = open_store("memory://dcp")
_numbers = itertools.count()


def new_uri() -> str:
    return f"memory://dcp/run/step-{next(_numbers)}"


def save(state: Any, uri: str, **options: Any) -> None:
    dcp.save(state, storage_writer=BucketStorageWriter(uri, **options), no_dist=True)


def load(state: Any, uri: str, **options: Any) -> Any:
    into = emptied(state)
    dcp.load(into, storage_reader=BucketStorageReader(uri, **options), no_dist=True)
    return into


def copied_to_files(uri: str, directory: Path) -> Path:
    prefix = uri.removeprefix("memory://dcp/") + "/"
    for info in STORE.list(prefix):
        path = directory / info.key.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(STORE.read(info.key).data)
    return directory


def copied_from_files(directory: Path, uri: str) -> None:
    prefix = uri.removeprefix("memory://dcp/") + "/"
    for path in directory.rglob("*"):
        if path.is_file():
            STORE.write(prefix + str(path.relative_to(directory)), path.read_bytes())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"thread_count": 3},
        {"single_file_per_rank": False},
        {"prefixes": BinaryPrefixes()},
        {"prefixes": HexPrefixes(count=4, min_length=2)},
        {"prefixes": RoundRobinPrefixes(["one", "other/inner"])},
        {"prefixes": lambda rank, world_size: f"{world_size}-{rank}"},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_what_is_saved_is_loaded_by_us_and_by_pytorch(options: dict[str, Any], tmp_path: Path) -> None:
    state, uri = training_state(), new_uri()
    save(state, uri, **options)
    assert same(load(state, uri), state)
    into = emptied(state)
    dcp.load(into, storage_reader=dcp.FileSystemReader(copied_to_files(uri, tmp_path)), no_dist=True)
    assert same(into, state)


@pytest.mark.parametrize("thread_count", [1, 3])
def test_what_pytorch_saves_is_loaded(thread_count: int, tmp_path: Path) -> None:
    state, uri = training_state(), new_uri()
    dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path, thread_count=thread_count), no_dist=True)
    copied_from_files(tmp_path, uri)
    assert same(load(state, uri), state)


def test_a_file_has_the_bytes_of_pytorch_s_but_for_the_checksums_in_it(tmp_path: Path) -> None:
    state, uri = training_state(), new_uri()
    save(state, uri)
    dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path), no_dist=True)
    ours = bytes(STORE.read(uri.removeprefix("memory://dcp/") + "/__0_0.distcp").data)
    theirs = (tmp_path / "__0_0.distcp").read_bytes()
    assert len(ours) == len(theirs)
    differing = sum(one != other for one, other in zip(ours, theirs, strict=True))
    tensors = 40
    assert differing < tensors * (2 * 4 + 40)  # two CRC-32 and the id that is made of them


def test_tensors_are_read_into_their_own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever wrote them: what torch must unpack itself is what lies in another order."""
    unpacked: list[str] = []
    finish = _WholeTensor.finish

    def noted(read: _WholeTensor) -> None:
        unpacked.append(read._item.storage_index.fqn)
        finish(read)

    monkeypatch.setattr(_WholeTensor, "finish", noted)
    state, uri = training_state(), new_uri()
    save(state, uri)
    load(state, uri)
    dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path), no_dist=True)
    copied_from_files(tmp_path, uri)
    load(state, uri)
    assert set(unpacked) <= {"views.turned", "views.every other", "views.columns", "complex"}


def test_only_the_wanted_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {f"layer.{number}": torch.randn(300, 1000) for number in range(10)}
    uri, asked = new_uri(), 0
    save(state, uri)
    submit = MemoryStore.submit_read_into

    def noted(store: MemoryStore, key: str, targets: Any, **options: Any) -> Any:
        nonlocal asked
        asked += sum(len(memory) for _, memory in targets)
        return submit(store, key, targets, **options)

    monkeypatch.setattr(MemoryStore, "submit_read_into", noted)
    wanted = {"layer.7": state["layer.7"]}
    assert same(load(wanted, uri), wanted)
    assert asked < 1.01 * 4 * 300_000


def test_another_dtype_is_converted() -> None:
    uri = new_uri()
    save({"weight": torch.arange(10.0)}, uri)
    into = {"weight": torch.zeros(10, dtype=torch.float64)}
    dcp.load(into, storage_reader=BucketStorageReader(uri), no_dist=True)
    assert torch.equal(into["weight"], torch.arange(10.0, dtype=torch.float64))


def test_a_tensor_that_has_gaps_is_loaded_into() -> None:
    uri, memory = new_uri(), torch.zeros(6, 8)
    save({"weight": torch.arange(12.0).reshape(3, 4)}, uri)
    dcp.load({"weight": memory[::2, 1::2]}, storage_reader=BucketStorageReader(uri), no_dist=True)
    assert torch.equal(memory[::2, 1::2], torch.arange(12.0).reshape(3, 4))
    assert memory.sum() == sum(range(12))


def test_small_memory_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchbucket.dcp.batches._SCRATCH_BYTES", 2000)
    state, uri = training_state(), new_uri()
    save(state, uri, thread_count=2)
    assert same(load(state, uri), state)


class Packed(StreamTransformExtension):
    """Compresses what is written."""

    @staticmethod
    def registry_name() -> str:
        return "packed"

    @staticmethod
    def from_descriptor(version: str) -> Packed:
        assert version == "1"
        return Packed()

    def get_descriptor(self) -> str:
        return "packed/1"

    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        return gzip.GzipFile(fileobj=output, mode="wb")  # type: ignore[return-value]

    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        return gzip.GzipFile(fileobj=input, mode="rb")  # type: ignore[return-value]


def test_extensions_transform_each_item(tmp_path: Path) -> None:
    registry = ExtensionRegistry()
    registry.register(Packed)
    state, uri = training_state(), new_uri()
    save(state, uri, extensions=[Packed()])
    assert same(load(state, uri, extension_registry=registry), state)
    into = emptied(state)
    dcp.load(into, storage_reader=dcp.FileSystemReader(copied_to_files(uri, tmp_path), registry), no_dist=True)
    assert same(into, state)


def test_plans_may_be_cached_and_writers_used_again() -> None:
    planner = DefaultSavePlanner(enable_plan_caching=True)
    writer = BucketStorageWriter(new_uri())
    uris = [new_uri() for _ in range(3)]
    for number, uri in enumerate(uris):
        dcp.save(training_state(number), checkpoint_id=uri, storage_writer=writer, planner=planner, no_dist=True)
    reader = BucketStorageReader(uris[0])
    for number, uri in enumerate(uris):
        state = training_state(number)
        into = emptied(state)
        dcp.load(into, checkpoint_id=uri, storage_reader=reader, no_dist=True)
        assert same(into, state)


def test_each_rank_by_itself_without_collectives(tmp_path: Path) -> None:
    state, uri = training_state(), new_uri()
    dcp.save(state, storage_writer=BucketStorageWriter(uri), no_dist=True, use_collectives=False)
    names = {info.key.rpartition("/")[2] for info in STORE.list(uri.removeprefix("memory://dcp/"))}
    assert names == {"__0.metadata", "__0_0.distcp", "__0.torchbucket.json"}
    assert same(load(state, uri), state)
    into = emptied(state)
    dcp.load(into, storage_reader=dcp.FileSystemReader(copied_to_files(uri, tmp_path)), no_dist=True)
    assert same(into, state)


def test_the_marker_is_written_last_and_taken_away_first(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def logged(name: str) -> None:
        act = getattr(MemoryStore, name)

        def noted(store: MemoryStore, key: str, *args: Any, **options: Any) -> Any:
            log.append(f"{name.partition('_')[0]} {key.rpartition('/')[2]}")
            return act(store, key, *args, **options)

        monkeypatch.setattr(MemoryStore, name, noted)

    for name in ("write", "write_from", "delete"):
        logged(name)
    uri = new_uri()
    save({"epoch": 1}, uri)
    first, log[:] = list(dict.fromkeys(log)), []
    assert first == ["write .torchbucket.json", "write __0_0.distcp", "write .metadata"]
    save({"epoch": 2}, uri)
    assert list(dict.fromkeys(log)) == ["delete .metadata", *first]
    with pytest.raises(dcp.CheckpointException) as caught:
        save({"epoch": 3}, uri, overwrite=False)
    assert isinstance(caught.value.failures[0][0], CheckpointError)
    assert load({"epoch": 0}, uri) == {"epoch": 2}


def test_a_failed_save_over_a_checkpoint_leaves_none_that_is_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = new_uri()
    save({"weight": torch.ones(3)}, uri)
    with monkeypatch.context() as patched:
        patched.setattr("torchbucket.dcp.writer.write_file", fail)
        with pytest.raises(dcp.CheckpointException, match="no room"):
            save({"weight": torch.zeros(3)}, uri)
    with pytest.raises(dcp.CheckpointException, match="metadata"):
        load({"weight": torch.zeros(3)}, uri)


def test_of_two_saves_to_one_address_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = new_uri()
    finish = BucketStorageWriter.finish

    def late(writer: BucketStorageWriter, metadata: Any, results: Any) -> None:
        monkeypatch.setattr(BucketStorageWriter, "finish", finish)
        save({"epoch": 2}, uri)
        finish(writer, metadata, results)

    monkeypatch.setattr(BucketStorageWriter, "finish", late)
    with pytest.raises(dcp.CheckpointException, match="another save to the same address"):
        save({"epoch": 1}, uri)
    # Its files are the ones that were written last, by either.
    with pytest.raises(dcp.CheckpointException, match="metadata"):
        load({"epoch": 0}, uri)


@pytest.mark.parametrize("use_collectives", [False, True])
def test_a_save_of_the_other_kind_is_taken_away_too(use_collectives: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ranks that are each by themselves, or of all together."""
    uri = new_uri()
    prefix = uri.removeprefix("memory://dcp/") + "/"
    dcp.save({"epoch": 1}, storage_writer=BucketStorageWriter(uri), no_dist=True, use_collectives=not use_collectives)
    if use_collectives:
        STORE.copy(f"{prefix}__0.metadata", f"{prefix}__1.metadata")
    monkeypatch.setattr("torchbucket.dcp.writer.write_file", fail)
    with pytest.raises((dcp.CheckpointException, OSError), match="no room"):
        dcp.save({"epoch": 2}, storage_writer=BucketStorageWriter(uri), no_dist=True, use_collectives=use_collectives)
    assert not [info.key for info in STORE.list(prefix) if info.key.endswith(".metadata")]


@pytest.mark.parametrize("may_read", [True, False])
def test_the_right_to_list_is_not_needed(may_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it S3 denies access to what is not there. Without the right to read, that cannot be told."""
    head, read = MemoryStore.head, MemoryStore.read

    def only(act: Callable[..., Any]) -> Callable[..., Any]:
        def asked(store: MemoryStore, key: str, **options: Any) -> Any:
            try:
                if may_read:
                    return act(store, key, **options)
            except NotFoundError:
                pass
            raise PermissionDeniedError(f"{key}: not allowed")

        return asked

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionDeniedError("list: not allowed")

    uri, state = new_uri(), {"weight": torch.ones(3)}
    monkeypatch.setattr(MemoryStore, "head", only(head))
    monkeypatch.setattr(MemoryStore, "read", only(read))
    monkeypatch.setattr(MemoryStore, "list", denied)
    if not may_read:
        with pytest.raises(dcp.CheckpointException, match="not allowed"):
            save(state, uri)
        return
    save(state, uri)
    assert same(load(state, uri), state)
    STORE.delete(uri.removeprefix("memory://dcp/") + "/.torchbucket.json")
    assert same(load(state, uri), state)


def fail(*_: Any, **__: Any) -> Any:
    raise OSError("no room")


@pytest.mark.parametrize("damage", ["cut", "longer", "missing"])
@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_damaged_file_is_named_before_any_tensor_is_touched(damage: str, has_manifest: bool) -> None:
    state, uri = {"weight": torch.ones(5000), "bias": torch.ones(10)}, new_uri()
    save(state, uri, single_file_per_rank=False)
    prefix = uri.removeprefix("memory://dcp/")
    if not has_manifest:
        STORE.delete(f"{prefix}/.torchbucket.json")
    key = f"{prefix}/__0_1.distcp"
    content = bytes(STORE.read(key).data)
    if damage == "missing":
        STORE.delete(key)
    else:
        STORE.write(key, content[:-1] if damage == "cut" else content + b"x")
    into = emptied(state)
    reader = BucketStorageReader(uri)
    if damage == "longer" and not has_manifest:
        dcp.load(into, storage_reader=reader, no_dist=True)
        assert same(into, state)
        return
    with pytest.raises(dcp.CheckpointException, match=r"not whole: __0_1\.distcp") as caught:
        dcp.load(into, storage_reader=reader, no_dist=True)
    assert isinstance(caught.value.failures[0][0], CheckpointError)
    assert same(into, emptied(state))


def test_an_altered_file_is_named_before_any_tensor_is_touched() -> None:
    state, uri = {"weight": torch.ones(5000), "bias": torch.ones(10)}, new_uri()
    save(state, uri)
    key = f"{uri.removeprefix('memory://dcp/')}/__0_0.distcp"
    content = bytearray(STORE.read(key).data)
    STORE.write(key, content)  # a copy
    assert same(load(state, uri), state)
    content[-5000] ^= 1
    STORE.write(key, content)
    into = emptied(state)
    with pytest.raises(dcp.CheckpointException, match=r"__0_0\.distcp has other bytes than were written"):
        dcp.load(into, storage_reader=BucketStorageReader(uri), no_dist=True)
    assert same(into, emptied(state))


@pytest.mark.parametrize("lasts", [False, True])
def test_what_is_changed_on_its_way_is_read_again(monkeypatch: pytest.MonkeyPatch, lasts: bool) -> None:
    state, uri = training_state(), new_uri()
    save(state, uri)
    submit = MemoryStore.submit_read_into

    def changed(store: MemoryStore, key: str, targets: Any, **options: Any) -> Any:
        if not lasts:
            monkeypatch.setattr(MemoryStore, "submit_read_into", submit)
        future = submit(store, key, targets, **options)
        future.result()
        for _, memory in targets[1::7]:
            if len(memory):
                memory[-1] ^= 1
        return future

    monkeypatch.setattr(MemoryStore, "submit_read_into", changed)
    if not lasts:
        assert same(load(state, uri), state)
        return
    with pytest.raises(dcp.CheckpointException, match=r"__0_0\.distcp: the [\d,]+ bytes at [\d,]+ have the crc64nvme"):
        load(state, uri)


def test_a_manifest_of_an_earlier_save_is_passed_over(tmp_path: Path) -> None:
    uri = new_uri()
    save({"weight": torch.ones(5)}, uri)
    dcp.save({"weight": torch.zeros(500)}, storage_writer=dcp.FileSystemWriter(tmp_path), no_dist=True)
    copied_from_files(tmp_path, uri)
    assert same(load({"weight": torch.ones(500)}, uri), {"weight": torch.zeros(500)})


def test_what_is_not_there_is_an_error_of_its_own() -> None:
    with pytest.raises(dcp.CheckpointException, match="metadata"):
        load({"weight": torch.ones(3)}, new_uri())
    with pytest.raises(NotFoundError):
        BucketStorageReader(new_uri()).read_metadata()


@pytest.mark.parametrize("make", [BucketStorageReader, BucketStorageWriter])
def test_addresses_are_checked(make: Callable[..., Any]) -> None:
    for wrong in ("s3://bucket", "s3://bucket/", "bucket/key", "http://host/key", 3):
        with pytest.raises(ConfigError):
            make(wrong)
        assert not make.validate_checkpoint_id(wrong)  # type: ignore[attr-defined]
    assert make("s3://bucket/run/step-1/").checkpoint_id == "s3://bucket/run/step-1"
    assert make(Path("s3://bucket/run")).checkpoint_id == "s3://bucket/run"
    assert make.validate_checkpoint_id("gs://bucket/run")  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{"thread_count": 0}, {"thread_count": "2"}, {"thread_count": 10_000}])
def test_settings_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="thread_count"):
        BucketStorageWriter("memory://dcp/run", **options)


def test_a_wrong_shape_is_told_with_both() -> None:
    uri = new_uri()
    save({"weight": torch.ones(3, 4)}, uri)
    planner = DefaultLoadPlanner(flatten_sharded_tensors=False)
    with pytest.raises((dcp.CheckpointException, ValueError), match="weight"):
        dcp.load({"weight": torch.ones(4, 3)}, storage_reader=BucketStorageReader(uri), planner=planner, no_dist=True)
