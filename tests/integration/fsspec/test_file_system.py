"""What a bucket's file system tells and does, on both providers."""

from __future__ import annotations

import errno
import io
import multiprocessing
import pickle
from pathlib import Path

import fsspec
import pytest
import torch
from bucket_places import Place

from torchbucket import ConfigError, NotFoundError, PermissionDeniedError, StoreError, UnsupportedError
from torchbucket.fsspec import BucketFileSystem

MIB = 1 << 20


def test_directories_are_the_beginnings_of_keys(place: Place) -> None:
    fs, path = place.fs, place.path
    fs.pipe({f"{path}/{name}": name.encode() for name in ("a/1", "a/b/2", "a.txt", "z", "ab/3")})
    fs.pipe_file(f"{path}/marked/", b"")  # fsspec strips the slash: a file of that name
    assert fs.ls(path, detail=False) == [f"{path}/{name}" for name in ("a", "a.txt", "ab", "marked", "z")]
    assert fs.ls(f"{path}/a.txt", detail=False) == [f"{path}/a.txt"]
    assert fs.find(path, maxdepth=2) == sorted(f"{path}/{name}" for name in ("a/1", "a.txt", "z", "ab/3", "marked"))
    assert fs.find(f"{path}/a") == [f"{path}/a/1", f"{path}/a/b/2"]
    assert fs.find(f"{path}/a", withdirs=True) == [f"{path}/{name}" for name in ("a", "a/1", "a/b", "a/b/2")]
    assert fs.find(f"{path}/z") == [f"{path}/z"]
    assert fs.glob(f"{path}/a*/*") == [f"{path}/a/1", f"{path}/a/b", f"{path}/ab/3"]
    assert [names for _, *names in fs.walk(f"{path}/a")] == [[["b"], ["1"]], [[], ["2"]]]
    assert fs.du(f"{path}/a") == len("a/1") + len("a/b/2")
    entry = fs.info(f"{path}/a/1")
    assert (entry["name"], entry["size"], entry["type"]) == (f"{path}/a/1", 3, "file")
    assert entry["ETag"]
    listed = fs.ls(f"{path}/a")[0]
    assert [listed[name] for name in ("name", "size", "type", "ETag")] == [
        entry[name] for name in ("name", "size", "type", "ETag")
    ]
    assert fs.modified(f"{path}/a/1").timestamp() == entry["mtime"]
    newest = max(fs.modified(name) for name in fs.find(f"{path}/a"))
    assert 0 <= (fs.modified(f"{path}/a") - newest).total_seconds() < 1, "a listing may have parts of a second"
    assert fs.info(f"{path}/a")["type"] == "directory"
    for name, is_directory in (("a", True), ("a/1", False), ("a/b", True), ("nothing", False), ("a/", True)):
        assert fs.isdir(f"{path}/{name}") is is_directory, name
        assert fs.isfile(f"{path}/{name}") is (name == "a/1"), name
        assert fs.exists(f"{path}/{name}") is (name != "nothing"), name


def test_what_is_not_there_is_no_empty_directory(place: Place) -> None:
    fs, path = place.fs, place.path
    for call in (fs.ls, fs.info, fs.cat_file, fs.rm_file, fs.rm, lambda name: fs.open(name, "rb")):
        with pytest.raises(NotFoundError) as failed:
            call(f"{path}/nothing")
        assert isinstance(failed.value, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{path}/nothing", recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.ls("no-such-bucket")
    assert fs.find(f"{path}/nothing") == []
    assert fs.glob(f"{path}/nothing*") == []
    assert not fs.exists("no-such-bucket/key")
    assert not fs.isdir("no-such-bucket/key")
    fs.pipe_file(f"{path}/a/1", b"1")
    for call in (fs.rm_file, fs.rm, lambda name: fs.open(name, "rb")):
        with pytest.raises(IsADirectoryError):
            call(f"{path}/a")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{path}/a")
    with pytest.raises(OSError) as not_empty:
        fs.rmdir(f"{path}/a")
    assert not_empty.value.errno == errno.ENOTEMPTY
    fs.makedirs(f"{path}/a/b/c", exist_ok=True)
    with pytest.raises(UnsupportedError):
        fs.rm("data", recursive=True)
    assert fs.exists(f"{path}/a/1")


def test_a_refusal_is_neither_absence_nor_an_empty_listing(place: Place) -> None:
    fs, path = place.fs, place.path
    fs.pipe_file(f"{path}/a/1", b"1")
    place.faults(kind="error", status=403)
    calls = (fs.exists, fs.isdir, fs.isfile, fs.ls, fs.find, fs.info, fs.du, fs.cat_file)
    for call in (*calls, lambda name: list(fs.walk(name)), lambda name: fs.glob(f"{name}*")):
        with pytest.raises(PermissionDeniedError) as refused:
            call(f"{path}/a")
        assert isinstance(refused.value, PermissionError)


def test_files_are_read_anywhere_and_written_whole(place: Place) -> None:
    fs, path = place.fs, f"{place.path}/file"
    content = torch.arange(3 * MIB, dtype=torch.int32).numpy().tobytes()  # 12 MiB: three parts
    with fs.open(path, "wb") as file:
        assert file.write(content[:MIB]) == MIB
        file.write(memoryview(content)[MIB:])
        assert file.tell() == len(content)
        assert not fs.exists(path)
    with fs.open(path, "rb") as file:
        assert file.size == len(content)
        file.seek(-10, io.SEEK_END)
        assert file.read() == content[-10:]
        file.seek(5)
        again = pickle.loads(pickle.dumps(file))
        assert again.read(20) == file.read(20) == content[5:25]
    assert fs.cat_file(path, 7, 9 * MIB) == content[7 : 9 * MIB]
    assert fs.cat_file(path, -9, -2) == content[-9:-2]
    assert fs.cat_file(path, -9) == content[-9:]
    assert fs.head(path, 3) == content[:3]
    assert fs.tail(path, 3) == content[-3:]
    ranges = fs.cat_ranges([path, path, f"{path}-nothing"], [1, 11 * MIB, 0], [4, None, 1])
    assert ranges[:2] == [content[1:4], content[11 * MIB :]]
    assert isinstance(ranges[2], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([path, f"{path}-nothing"], 0, 1, on_error="raise")
    fs.pipe_file(f"{path}.txt", "größe\n".encode() * 3)
    with fs.open(f"{path}.txt", "r", encoding="utf-8") as text:
        assert text.readlines() == ["größe\n"] * 3


def test_nothing_appears_of_a_write_that_was_given_up(place: Place) -> None:
    fs, path = place.fs, f"{place.path}/file"
    for mode, piece in (("wb", bytes(6 * MIB)), ("w", "text")):
        with pytest.raises(ZeroDivisionError), fs.open(path, mode) as file:
            file.write(piece)
            raise ZeroDivisionError
        assert file.closed
    file = fs.open(path, "wb")
    file.write(b"left open")
    del file
    with pytest.raises(ZeroDivisionError), fs.transaction, fs.open(path, "wb") as file:
        file.write(bytes(6 * MIB))
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), fs.transaction:
        with fs.open(path, "wb") as file:
            file.write(b"closed, and not committed")
        raise ZeroDivisionError
    assert not fs.exists(path)
    with fs.transaction:
        with fs.open(path, "wb") as file:
            file.write(b"committed")
        assert not fs.exists(path)
    assert fs.cat_file(path) == b"committed"
    assert place.testbed.open_uploads() == []


def test_a_failed_upload_is_raised_when_its_file_is_closed(place: Place) -> None:
    fs, path = place.fs, f"{place.path}/file"
    place.faults(kind="error", status=500, methods=["PUT"])
    file = fs.open(path, "wb")
    file.write(b"small")
    with pytest.raises(StoreError) as failed:
        file.close()
    assert isinstance(failed.value, OSError)
    assert file.closed
    with pytest.raises(StoreError), fs.open(path, "wb") as file:
        file.write(bytes(11 * MIB))
    place.testbed.set_faults([])
    assert not fs.exists(path)
    assert place.testbed.open_uploads() == []


def test_a_new_file_is_new_when_it_appears_too(place: Place) -> None:
    fs, path = place.fs, f"{place.path}/file"
    file = fs.open(path, "xb")
    file.write(b"late")
    fs.pipe_file(path, b"early")
    with pytest.raises(FileExistsError):
        file.close()
    assert fs.cat_file(path) == b"early"
    with pytest.raises(UnsupportedError, match="written anew"):
        fs.open(path, "ab")
    with pytest.raises(UnsupportedError, match=r"fsspec\.open"):
        fs.open(path, "wb", compression="gzip")


def test_files_go_to_disk_and_back_and_between_buckets(place: Place, tmp_path: Path) -> None:
    fs, path = place.fs, place.path
    content = bytes(range(256)) * (6 * MIB // 256)
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_bytes(content)
    sent: list[int] = []

    class Progress(fsspec.callbacks.Callback):
        def relative_update(self, inc: int = 1) -> None:
            sent.append(inc)

    fs.put_file(str(source), f"{path}/1", callback=Progress())
    assert sum(sent) == len(content)
    fs.cp_file(f"{path}/1", f"{path}/2")
    fs.mv(f"{path}/2", f"{path}/3")
    fs.get_file(f"{path}/3", str(target))
    assert target.read_bytes() == content
    assert fs.find(path) == [f"{path}/1", f"{path}/3"]
    memory = io.BytesIO()
    fs.get_file(f"{path}/1", memory)
    assert memory.getvalue() == content
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{path}/nothing", str(tmp_path / "nothing"))
    place.faults(kind="error", status=500, operations=["get_object", "get_object_range"])
    with pytest.raises(StoreError):
        fs.get_file(f"{path}/1", str(tmp_path / "cut"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deep", "source"]
    place.testbed.set_faults([])
    fs.rm([f"{path}/1", f"{path}/3"])
    assert fs.find(path) == []


def _read_in_child(fs: BucketFileSystem, path: str, answers: object) -> None:
    answers.put(fs.cat_file(path))  # type: ignore[attr-defined]


def test_a_child_process_reads_by_the_file_system_it_was_given(place: Place) -> None:
    path = f"{place.path}/file"
    place.fs.pipe_file(path, b"content")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(place.fs, path, answers))
    child.start()
    assert answers.get() == b"content"
    child.join()
    assert child.exitcode == 0
    copy = pickle.loads(pickle.dumps(place.fs))
    assert copy.config == place.config
    assert copy.cat_file(path) == b"content"


def test_registered_it_is_what_fsspec_opens(registered: Place) -> None:
    with fsspec.open(f"{registered.uri}/file.gz", "wt", compression="gzip") as file:
        file.write("text")
    with fsspec.open(f"{registered.uri}/file.gz", "rt", compression="gzip") as file:
        assert file.read() == "text"
    fs, path = fsspec.url_to_fs(f"{registered.uri}/file.gz")
    assert isinstance(fs, BucketFileSystem)
    assert fs is fsspec.filesystem(registered.protocol)
    assert fs.unstrip_protocol(path) == f"{registered.uri}/file.gz"
    with fs.open(f"{path}.pt", "wb") as file:
        torch.save({"step": torch.arange(5)}, file)
    with fs.open(f"{path}.pt", "rb") as file:
        assert torch.equal(torch.load(file)["step"], torch.arange(5))
    with pytest.raises(ConfigError, match=registered.protocol):
        fs.ls("http://data/area")
