"""What is the file store's own: names it must refuse, links, temporaries, permissions and files that others change."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from torchbucket.errors import (
    ConfigError,
    NotFoundError,
    ObjectChangedError,
    PermissionDeniedError,
    StoreError,
    UnsupportedError,
)
from torchbucket.store import Read, Store, StoreConfig, open_store
from torchbucket.uri import ObjectURI


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Store:
    return open_store(f"file://{root}")


@pytest.mark.parametrize(
    "key",
    [
        "../outside",
        "a/../../outside",
        "..",
        "/etc/passwd",
        "a\0b",
        "a//b",
        "a/",
        "./a",
        "x" * 256,
        ".x.torchbucket-temporary-20261128T160729Z-d76b153a1d11f9c8",
    ],
)
def test_a_key_that_is_no_path_below_the_root_is_refused(store: Store, root: Path, key: str) -> None:
    for call in (store.head, store.read, store.delete, lambda k: store.write(k, b"x"), lambda k: store.copy(k, "y")):
        with pytest.raises(UnsupportedError, match="its key has"):
            call(key)
    assert (root.parent / "outside").read_bytes() == b"secret"
    assert list(root.iterdir()) == []


def test_links_are_followed_to_files_and_directories(store: Store, root: Path) -> None:
    store.write("a/real", b"content")
    (root / "link").symlink_to(root / "a" / "real")
    (root / "out").symlink_to(root.parent / "outside")
    (root.parent / "disk").mkdir()
    (root.parent / "disk" / "x").write_bytes(b"far")
    (root / "b").symlink_to(root.parent / "disk")
    assert [info.key for info in store.list()] == ["a/real", "b/x", "link", "out"]
    assert [info.key for info in store.list(start_after="b/x")] == ["link", "out"]
    assert [bytes(store.read(info.key).data) for info in store.list()] == [b"content", b"far", b"content", b"secret"]
    store.write("b/new", b"through the link")
    assert (root.parent / "disk" / "new").read_bytes() == b"through the link"
    store.delete("b/new")
    store.delete("b/x")
    assert (root / "b").is_symlink(), "a directory that a link leads to is not tidied away"


def test_a_write_and_a_delete_are_of_the_link_itself(store: Store, root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    store.write("link", b"replaces the link, not what it leads to")
    assert (root.parent / "outside").read_bytes() == b"secret"
    (root / "other").symlink_to(root.parent / "outside")
    store.delete("other")
    assert (root.parent / "outside").exists()
    assert not (root / "other").is_symlink()
    (root / "directory").symlink_to(root.parent)
    store.delete("directory")
    assert (root / "directory").is_symlink(), "a link to a directory is no object, so there is nothing to remove"


def test_links_that_lead_nowhere_or_round_are_passed_over(store: Store, root: Path) -> None:
    store.write("a/b/x", b"")
    (root / "dangling").symlink_to(root / "nowhere")
    (root / "itself").symlink_to(root / "itself")
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "b" / "here").symlink_to(root / "a" / "b")
    (root / "c").mkdir()
    (root / "c" / "to-d").symlink_to(root / "d")
    (root / "d").mkdir()
    (root / "d" / "to-c").symlink_to(root / "c")
    store.write("d/y", b"")
    assert [info.key for info in store.list()] == ["a/b/x", "c/to-d/y", "d/y"]


def test_the_whole_file_system_is_a_root_whose_directories_stay(root: Path) -> None:
    store = open_store("file:///")
    location = ObjectURI.parse(f"file://{root}/new/k")
    store.write(location.key, b"v")
    assert [info.key for info in store.list(f"{root}/".lstrip("/"))] == [location.key]
    store.delete(location.key)
    assert (root / "new").is_dir()
    assert list(store.list(f"{root}/typo/x".lstrip("/"))) == []
    assert pickle.loads(pickle.dumps(store)).uri == "file:///"


def test_a_store_of_a_directory_crosses_to_another_process(store: Store, root: Path) -> None:
    store.write("a/k", b"v")
    sent = pickle.loads(pickle.dumps(store))
    assert sent.uri == f"file://{root}"
    assert [info.key for info in sent.list()] == ["a/k"]


def test_a_root_behind_a_link_is_that_root(store: Store, root: Path) -> None:
    store.write("k", b"v")
    (root.parent / "alias").symlink_to(root)
    assert bytes(open_store(f"file://{root.parent}/alias").read("k").data) == b"v"


def test_a_name_cannot_be_file_and_directory(store: Store) -> None:
    store.write("a", b"file")
    store.write("d/x", b"")
    for key in ("a/b", "a/b/c", "d"):
        with pytest.raises(UnsupportedError, match="both a file and a directory"):
            store.write(key, b"")
    for key in ("a/b", "d"):
        with pytest.raises(NotFoundError):
            store.read(key)
        with pytest.raises(NotFoundError):
            store.head(key)


def test_a_root_that_is_missing(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/not/yet")
    with pytest.raises(NotFoundError, match="no such directory"):
        list(store.list())
    store.write("k", b"made")
    assert (tmp_path / "not" / "yet" / "k").read_bytes() == b"made"


def test_names_that_are_not_utf8_are_not_passed_over(store: Store, root: Path) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(root) + b"/bad-\xff"))).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(UnsupportedError, match="not UTF-8"):
        list(store.list())


def test_special_files_are_no_objects(store: Store, root: Path) -> None:
    os.mkfifo(root / "pipe")
    store.write("k", b"")
    assert [info.key for info in store.list()] == ["k"]
    with pytest.raises(NotFoundError):
        store.read("pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_refusal_by_the_system_is_named(store: Store, root: Path) -> None:
    store.write("k", b"")
    (root / "k").chmod(0)
    with pytest.raises(PermissionDeniedError, match="owner and mode"):
        store.read("k")


def test_an_objects_mode_follows_the_umask(store: Store, root: Path) -> None:
    before = os.umask(0o027)
    try:
        store.write("k", b"")
    finally:
        os.umask(before)
    assert (root / "k").stat().st_mode & 0o777 == 0o640


def test_a_killed_writer_leaves_an_upload_that_can_be_swept(store: Store, root: Path) -> None:
    writer = store.open_writer("deep/er/k")
    writer.write(b"x")
    (upload,) = store.list_uploads("deep/")
    assert list(store.list()) == []
    store.abort_upload(upload)
    assert list(root.iterdir()) == []
    with pytest.raises(StoreError):
        writer.close()
    with pytest.raises(StoreError, match="no open upload"):
        store.abort_upload(type(upload)(key="k", upload_id="../outside"))


def test_open_uploads_are_looked_for_below_the_prefix_only(store: Store, root: Path) -> None:
    with store.open_writer("deep/k") as writer:
        writer.write(b"x")
        (root / os.fsdecode(b"\xff")).touch()  # a name that no listing of the whole root can pass over
        assert [upload.key for upload in store.list_uploads("deep/")] == ["deep/k"]
        assert list(store.list_uploads("deep/other")) == []
        with pytest.raises(UnsupportedError):
            list(store.list_uploads())


def test_open_uploads_are_looked_for_only_in_directories_that_can_hold_them(store: Store, root: Path) -> None:
    with store.open_writer("deep/k") as writer, store.open_writer("deer") as another:
        writer.write(b"x")
        another.write(b"x")
        (root / "other").mkdir()
        (root / "other" / os.fsdecode(b"\xff")).touch()
        assert [upload.key for upload in store.list_uploads("dee")] == ["deer", "deep/k"]


def test_a_write_is_on_the_device_with_the_names_that_lead_to_it(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = [], os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name if path.is_file() else str(path.relative_to(root)), (root / "new/er/k").exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.write("new/er/k", b"v")
    assert synced[0][0].startswith(".k.torchbucket-temporary-")
    assert synced == [(synced[0][0], False), ("new/er", True), ("new", True), (".", True)]
    synced.clear()
    store.write("new/er/k", b"v", if_version=store.head("new/er/k").version)
    assert [name for name, _ in synced[1:]] == ["new/er"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_leaves_no_temporary(store: Store, root: Path) -> None:
    """What is buffered is written again when the file is closed, and finds the device full again."""
    with Path("/dev/full").open("wb") as full, pytest.raises(StoreError, match="No space left"):
        writer = store.open_writer("k")
        writer.write(b"buffered")
        os.dup2(full.fileno(), writer.file.fileno())
        writer.close()
    assert writer.closed
    assert list(root.iterdir()) == []


def test_long_names_have_temporaries_that_fit(store: Store) -> None:
    key = "ü" * 127
    store.write(key, b"v")
    assert [info.key for info in store.list()] == [key]


def test_a_file_that_is_rewritten_in_place_while_it_is_read(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("k", b"one")
    real = os.pread

    def pread(descriptor: int, length: int, offset: int) -> bytes:
        data = real(descriptor, length, offset)
        (root / "k").write_bytes(b"two!")
        return data

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(ObjectChangedError):
        store.read("k")


def test_a_copy_of_a_temporary_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError):
        store.copy("", "k")


@pytest.mark.parametrize(
    "blocking",
    [
        lambda store: store.submit_read(Read(key="k")).result(5),
        lambda store: store.submit_read(Read(key="k")).exception(5),
        lambda store: store.submit_list_page().result(5),
        lambda store: store.submit_read_into("k", []).result(5),
        lambda store: store.close(),
    ],
    ids=["result", "exception", "page", "into", "close"],
)
def test_what_would_wait_on_the_stores_own_thread_raises(root: Path, blocking: Callable[[Store], object]) -> None:
    """Each of its threads could be in such a function, and none be left that reads."""
    store = open_store(f"file://{root}", StoreConfig(concurrency=1))
    store.write("k", b"v")
    told: list[object] = []
    over = threading.Event()

    def from_the_thread(_: int) -> None:
        try:
            told.append(blocking(store))
        except Exception as error:  # noqa: BLE001
            told.append(error)
        over.set()

    # While it reads; a done-callback that is added late would run in this thread.
    memory = memoryview(bytearray(1))
    assert store.submit_read_into("k", [(0, memory)], filled=from_the_thread).result(30).size_bytes == 1
    assert over.is_set()
    assert isinstance(told[0], StoreError)
    assert "own thread" in str(told[0])
    assert store.submit_read(Read(key="k")).result(30).data == b"v"
