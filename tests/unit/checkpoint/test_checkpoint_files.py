"""``Checkpoint``: keys below an address, files, and the options of a save."""

from __future__ import annotations

import io
import mmap
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torchbucket
from torchbucket import Checkpoint, ChecksumError, ConfigError, StoreConfig, StoreError
from torchbucket.config import MIB
from torchbucket.store import ObjectInfo, open_store
from torchbucket.store.http.part_upload import PartUpload
from torchbucket.store.http.whole_write import part_bytes_of
from torchbucket.store.memory import MemoryStore

GIB = 1 << 30
UNTOUCHED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # of which the kernel has one page of zeros
STATE = {"weight": torch.arange(1000.0), "epoch": 3}


def test_a_checkpoint_is_written_and_read_as_a_file() -> None:
    checkpoint = Checkpoint("memory://files/run-1/")
    with checkpoint.writer("a/b.pt") as file:
        torch.save(STATE, file)
    assert file.info.key == "run-1/a/b.pt"
    assert checkpoint.uri("a/b.pt") == "memory://files/run-1/a/b.pt"
    with checkpoint.reader("a/b.pt") as reader:
        assert reader.peek(2)[:2] == b"PK"
        head = bytearray(4)
        assert reader.readinto(head) == 4
        assert head == b"PK\x03\x04"
        reader.seek(0)
        assert torch.equal(torch.load(reader, weights_only=True)["weight"], STATE["weight"])
        assert "data.pkl" in zipfile.ZipFile(reader).namelist()[0]
    with checkpoint.writer("text.txt") as file, io.TextIOWrapper(file) as text:
        text.write("ü")
    assert checkpoint.reader("text.txt").read() == "ü".encode()


@pytest.mark.parametrize(
    "base", ["memory://bases", "memory://bases/", "memory://bases/d/e", Path("memory://bases/d/e")]
)
def test_keys_follow_the_base_with_one_slash(base: Any) -> None:
    checkpoint = Checkpoint(base)
    info = checkpoint.save(STATE, "k.pt")
    assert info.key == checkpoint.uri("k.pt").removeprefix("memory://bases/")
    assert info.key in ("k.pt", "d/e/k.pt")
    assert checkpoint.load("k.pt")["epoch"] == 3


def test_a_directory_is_a_base(tmp_path: Path) -> None:
    outside = tmp_path / "outside.pt"
    checkpoint = Checkpoint(tmp_path / "run")
    checkpoint.save(STATE, "deep/er.pt")
    assert torch.load(tmp_path / "run/deep/er.pt", weights_only=True)["epoch"] == 3
    with pytest.raises(ConfigError, match="below"):
        checkpoint.save(STATE, "../outside.pt")
    assert not outside.exists()


@pytest.mark.parametrize("key", ["", "/a", "../a", "a/../b", "a/./b", "a//b", "a/", "s3://b/k", "a\0b", None, 3, b"a"])
def test_a_key_that_could_leave_the_base_is_refused(key: Any) -> None:
    checkpoint = Checkpoint("memory://bases/run")
    calls: list[Callable[[], object]] = [
        lambda: checkpoint.writer(key),
        lambda: checkpoint.reader(key),
        lambda: checkpoint.save(STATE, key),
        lambda: checkpoint.save_async(STATE, key),
        lambda: checkpoint.load(key),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="a path below 'memory://bases/run'"):
            call()


@pytest.mark.parametrize("uri", ["s3://bucket", "s3://bucket/run/", "bucket/key", 7])
def test_an_address_of_no_object_is_refused(uri: Any) -> None:
    for call in (lambda: torchbucket.save(STATE, uri), lambda: torchbucket.save_async(STATE, uri)):
        with pytest.raises(ConfigError):
            call()
    with pytest.raises(ConfigError, match="config must be"):
        torchbucket.save(STATE, "memory://bases/k", config=object())  # type: ignore[arg-type]


def test_a_writer_that_is_left_by_an_exception_publishes_nothing() -> None:
    checkpoint = Checkpoint("memory://files/left")
    checkpoint.save({"epoch": 1}, "k.pt")
    with pytest.raises(ZeroDivisionError), checkpoint.writer("k.pt") as file:
        torch.save({"epoch": 2}, file)
        raise ZeroDivisionError
    assert checkpoint.load("k.pt") == {"epoch": 1}


class Unpicklable:
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("while it is pickled")


@pytest.mark.parametrize("in_place", [True, False])
def test_an_object_that_cannot_be_pickled_leaves_what_was_there(in_place: bool) -> None:
    others = [torch.ones(5)] if in_place else [torch.empty(5, device="meta")]
    torchbucket.save({"epoch": 1}, "memory://files/kept.pt")
    for save in (torchbucket.save, torchbucket.save_async):
        with pytest.raises(ZeroDivisionError, match="while it is pickled"):
            save([*others, Unpicklable()], "memory://files/kept.pt")
    assert torchbucket.load("memory://files/kept.pt") == {"epoch": 1}
    assert torchbucket.save_async({"epoch": 2}, "memory://files/kept.pt").result().key == "kept.pt"


def test_a_checkpoint_pickles_as_its_address() -> None:
    checkpoint = pickle.loads(pickle.dumps(Checkpoint("s3://bucket/run", StoreConfig(profile="p", region="r"))))
    assert checkpoint.base_uri == "s3://bucket/run"
    assert repr(checkpoint) == "Checkpoint('s3://bucket/run')"
    assert checkpoint.store is Checkpoint("s3://bucket/other", StoreConfig(profile="p", region="r")).store


def test_one_write_of_more_than_2_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the writer of a bucket, whose parts arrive at once."""
    sizes = []

    def arrived(upload: PartUpload, body: Any, _checksum: object, ended: Callable[[], None]) -> None:
        upload.count += 1
        sizes.append(len(body))
        ended()

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setattr(PartUpload, "send", arrived)
    monkeypatch.setattr(PartUpload, "complete", lambda _: ObjectInfo(key="k", size_bytes=sum(sizes)))
    length = 2 * GIB + 5
    checkpoint = Checkpoint("s3://bucket", StoreConfig(part_size_bytes=64 * MIB))
    with mmap.mmap(-1, length, flags=UNTOUCHED) as zeros, memoryview(zeros) as view, checkpoint.writer("k") as file:
        assert file.write(view) == length
    assert file.info.size_bytes == length
    assert max(sizes) == 64 * MIB


@pytest.mark.parametrize("size_bytes", [5 * GIB + 1, 79 * GIB, 3000 * GIB, 5 << 40])
def test_objects_of_any_size_fit_into_10_000_parts(size_bytes: int) -> None:
    part_bytes = part_bytes_of(size_bytes, StoreConfig().part_size_bytes, 10_000)
    assert -(-size_bytes // part_bytes) <= 10_000
    assert 5 * MIB <= part_bytes <= 5 * GIB


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_one_request_for_more_than_it_takes_is_refused_before_anything_is_sent(scheme: str) -> None:
    """Nothing answers at the endpoint. The state has 6 GiB that nobody has touched."""
    config = StoreConfig(endpoint="http://127.0.0.1:9", anonymous=True)
    with mmap.mmap(-1, 6 * GIB, flags=UNTOUCHED) as zeros:
        state = {"weight": torch.frombuffer(zeros, dtype=torch.float32)}
        with pytest.raises(StoreError, match="one request takes 5368709120"):
            torchbucket.save(state, f"{scheme}://bucket/k.pt", config=config, multipart=False)
        del state


def test_multipart_is_handed_on_whichever_way_an_object_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    write_from = MemoryStore.write_from

    def noted(store: MemoryStore, key: str, pieces: Any, **options: Any) -> ObjectInfo:
        asked.append((key, options["multipart"]))
        return write_from(store, key, pieces, **options)

    monkeypatch.setattr(MemoryStore, "write_from", noted)
    for multipart in (True, False):
        for name, options in (("in place", {}), ("plain", {"_use_new_zipfile_serialization": False})):
            torchbucket.save(STATE, f"memory://files/{name}", multipart=multipart, **options)
            assert torchbucket.load(f"memory://files/{name}")["epoch"] == 3
        torchbucket.save_async(STATE, "memory://files/async", multipart=multipart).result()
    assert asked == [
        ("in place", True),
        ("async", True),
        ("in place", False),
        ("plain", False),
        ("async", False),
    ]


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}, {"multipart": False}])
def test_verification_reads_back_what_was_saved(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"weight": torch.arange(6.0 * MIB)}  # read back in several pieces
    torchbucket.save(state, "memory://files/right.pt", verify=True, **options)
    put = MemoryStore._put

    def damaged(store: MemoryStore, key: str, data: bytes, condition: Any) -> ObjectInfo:
        return put(store, key, data[:-1] + bytes([data[-1] ^ 1]), condition)

    monkeypatch.setattr(MemoryStore, "_put", damaged)
    torchbucket.save(STATE, "memory://files/unseen.pt", **options)
    with pytest.raises(ChecksumError, match=r"save memory://files/wrong\.pt: the object is there") as caught:
        torchbucket.save(STATE, "memory://files/wrong.pt", verify=True, **options)
    assert caught.value.expected != caught.value.computed
    failed = torchbucket.save_async(STATE, "memory://files/wrong.pt", verify=True)
    assert isinstance(failed.exception(), ChecksumError)
    assert open_store("memory://files").head("right.pt").size_bytes > 24 * MIB
