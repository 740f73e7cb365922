"""What a testbed's directory is: its own by a mark, nobody else's meanwhile, and never a place to lose files."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import multiprocessing.queues
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from asgi_driver import GCS_PORT, Driver

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.directory import DirectoryStorage
from buckettestbed.model.errors import DirectoryError, DirectoryInUseError, ForeignDirectoryError


def tree(folder: Path) -> dict[str, str]:
    """Every path below a folder, and what it is or holds; links are not followed."""
    found = {}
    for directory, folders, names in os.walk(folder):
        for path in (Path(directory) / name for name in (*folders, *names)):
            kind = "link" if path.is_symlink() else "folder" if path.is_dir() else path.read_bytes().hex()
            found[str(path.relative_to(folder))] = kind
    return found


def file_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest() + ".object"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("photos/holiday.jpg", ["'photos'", "no .buckettestbed", "give an empty directory"]),
        ("notes.txt", ["'notes.txt'"]),
        (".hidden", ["'.hidden'"]),
        (".buckettestbed", ["is null", '"version": 5']),
    ],
)
def test_a_directory_of_someone_else_is_refused_and_left_as_it_is(tmp_path: Path, path: str, words: list[str]) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_bytes(b"mine")
    before = tree(tmp_path)
    with pytest.raises(ForeignDirectoryError) as refused:
        DirectoryStorage(tmp_path)
    for word in words:
        assert word in str(refused.value)
    assert tree(tmp_path) == before


def test_a_directory_of_another_format_is_refused(tmp_path: Path) -> None:
    DirectoryStorage(tmp_path).close()
    mark = tmp_path / ".buckettestbed"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"version": 99}))
    with pytest.raises(ForeignDirectoryError, match=r'"version": 99.*this testbed reads .*"version": 5'):
        DirectoryStorage(tmp_path)


def test_a_link_to_a_directory_is_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    driver = Driver(DirectoryStorage(tmp_path / "link"))
    driver.put("key", b"1")
    with pytest.raises(DirectoryInUseError):
        DirectoryStorage(tmp_path / "real")
    driver.buckets.storage.close()
    assert "key" in Buckets(DirectoryStorage(tmp_path / "real")).bucket("data").objects


def test_a_link_in_place_of_unfinished_bodies_is_not_followed(tmp_path: Path) -> None:
    DirectoryStorage(tmp_path / "ours").close()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_bytes(b"mine")
    (tmp_path / "ours" / ".incoming").symlink_to(tmp_path / "theirs")
    with pytest.raises(DirectoryError, match="cannot use"):
        DirectoryStorage(tmp_path / "ours")
    assert (tmp_path / "theirs" / "file").read_bytes() == b"mine"


def hold(directory: Path, ready: multiprocessing.queues.Queue[str]) -> None:
    storage = DirectoryStorage(directory)
    storage.receive([]).write(b"unfinished")
    ready.put("ready")
    signal.pause()


def test_one_testbed_at_a_time_and_a_killed_one_leaves_it_free_and_clean(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready: multiprocessing.queues.Queue[str] = context.Queue()
    process = context.Process(target=hold, args=(tmp_path, ready))
    process.start()
    try:
        ready.get(timeout=60)
        with pytest.raises(DirectoryInUseError, match=r"another testbed serves .*end it, or give another"):
            DirectoryStorage(tmp_path)
        assert len(list((tmp_path / ".incoming").iterdir())) == 1
    finally:
        process.kill()
        process.join()
    storage = DirectoryStorage(tmp_path)
    assert list((tmp_path / ".incoming").iterdir()) == []
    storage.close()


def test_no_request_removes_or_serves_what_the_testbed_did_not_write(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    first = Driver(DirectoryStorage(ours))
    first.put("key", b"body")
    first.buckets.storage.close()
    shard = ours / "data" / file_name("key")[:2]
    other = ours / "data" / next(name for name in ("00", "ff") if name != shard.name)
    foreign = theirs / shard.name / ("0" * 64 + ".object")
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"mine")
    (theirs / ".bucket").write_text("")
    (ours / "folder").mkdir()
    (ours / "folder" / "file").write_bytes(b"mine")
    (ours / "linked").symlink_to(theirs)
    other.symlink_to(foreign.parent)
    (ours / "data" / "notes.txt").write_bytes(b"mine")
    (shard / "file").write_bytes(b"mine")
    (shard / ("1" * 64 + ".object")).symlink_to(foreign)
    before = tree(tmp_path)

    driver = Driver(DirectoryStorage(ours))
    assert [bucket.name for bucket in driver.buckets] == ["data"]
    assert list(driver.buckets.bucket("data").objects) == ["key"]
    assert driver.ask("DELETE", "/folder").code == driver.ask("DELETE", "/linked").code == "NoSuchBucket"
    assert driver.ask("PUT", "/folder").code == driver.ask("PUT", "/linked").code == "InternalError"
    assert driver.ask("DELETE", "/data").code == "BucketNotEmpty"
    assert driver.ask("DELETE", "/data/key").status == 204
    assert driver.ask("DELETE", "/data").status == 204
    driver.buckets.storage.close()

    after = tree(tmp_path)
    removed = before.keys() - after.keys()
    assert removed == {f"ours/data/{shard.name}/{file_name('key')}", "ours/data/.bucket"}
    assert after == {path: what for path, what in before.items() if path not in removed}


def test_a_bucket_that_is_deleted_leaves_no_folder_and_can_be_made_again(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path))
    for number in range(20):
        driver.put(f"key/{number}", b"1")
        driver.ask("DELETE", f"/data/key/{number}")
    assert driver.ask("DELETE", "/data").status == 204
    assert sorted(path.name for path in tmp_path.iterdir()) == [".buckettestbed", ".incoming"]
    (tmp_path / "data").mkdir()  # What a testbed leaves that is killed in the middle of making it.
    assert driver.ask("PUT", "/data").status == 200
    driver.put("key", b"1")


def test_an_object_is_written_into_no_folder_that_is_a_link(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path / "ours"))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours" / "data" / file_name("key")[:2]).symlink_to(tmp_path / "theirs")
    assert driver.ask("PUT", "/data/key", body=b"1").code == "InternalError"
    assert list((tmp_path / "theirs").iterdir()) == []
    assert list((tmp_path / "ours" / ".incoming").iterdir()) == []


@contextmanager
def room_for(size_bytes: int) -> Iterator[None]:
    """No file of this process may be longer, as if a disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size_bytes", [100, 100_000])  # what is kept back until the file is closed, and what is not
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, size_bytes: int) -> None:
    driver = Driver(DirectoryStorage(tmp_path))
    with room_for(10):
        in_s3 = driver.ask("PUT", "/data/key", body=b"x" * size_bytes)
        in_gcs = driver.ask(
            "POST", "/upload/storage/v1/b/data/o", "uploadType=media&name=key", body=b"x" * size_bytes, port=GCS_PORT
        )
    assert (in_s3.status, in_s3.code, in_gcs.status) == (507, "InsufficientStorage", 507)
    for answer in (in_s3, in_gcs):
        assert f"keeps objects in {tmp_path}, and has no room left there".encode() in answer.body
    assert list((tmp_path / ".incoming").iterdir()) == []
    assert driver.buckets.bucket("data").objects == {}


def test_a_directory_on_a_full_disk_is_not_taken_for_another_ones_later(tmp_path: Path) -> None:
    with room_for(0), pytest.raises(DirectoryError, match="cannot use"):
        DirectoryStorage(tmp_path)
    DirectoryStorage(tmp_path).close()
