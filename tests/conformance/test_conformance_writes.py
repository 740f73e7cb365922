"""Every store publishes an object whole or not at all, and copies what it is given before it returns."""

from __future__ import annotations

import io
import pickle
import random
import zipfile

import numpy
import pytest
import torch
from conformance_subjects import PART_BYTES, Subject

from torchbucket.errors import ConfigError, NotFoundError, PreconditionFailedError, StoreError


def test_an_overwrite_replaces(made: Subject) -> None:
    made.put("k", b"a longer content")
    info = made.put("k", b"short")
    assert bytes(made.store.read("k").data) == b"short"
    assert (info.key, info.size_bytes, info.version) == ("k", 5, made.store.head("k").version)


@pytest.mark.parametrize(
    "size", [0, 1, 1000, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 3 * PART_BYTES + 5]
)
def test_a_writer_copies_before_it_returns(writing: Subject, size: int) -> None:
    content = random.Random(size).randbytes(size)
    scratch = bytearray(1 << 20)
    with writing.store.open_writer("k") as writer:
        for start in range(0, size, 777_777):
            piece = content[start : start + 777_777]
            scratch[: len(piece)] = piece
            assert writer.write(memoryview(scratch)[: len(piece)]) == len(piece)
            scratch[: len(piece)] = b"\xee" * len(piece)  # as torch.save does with the memory of its views
    assert writing.store.read("k").data == content
    writer.close()
    assert (writer.info.key, writer.info.size_bytes) == ("k", size)
    assert writer.info.version == writing.store.head("k").version


def test_a_writer_takes_any_contiguous_memory(writing: Subject) -> None:
    numbers = numpy.arange(12, dtype=numpy.float64).reshape(3, 4)
    with writing.store.open_writer("k") as writer:
        assert writer.write(memoryview(numbers)) == 96
        with pytest.raises(ConfigError, match="contiguous"):
            writing.store.write("other", memoryview(numbers)[::2])
    assert bytes(writing.store.read("k").data) == numbers.tobytes()


def pieces_of(rng: random.Random, content: bytes, most_bytes: int) -> list[bytes | bytearray | memoryview]:
    """Cut bytes into pieces of random lengths, some of none, in memory of every kind."""
    kinds = (bytes, bytearray, memoryview, lambda piece: memoryview(numpy.frombuffer(piece, numpy.uint8)))
    pieces, start = [], 0
    while start < len(content):
        length = rng.choice((0, 1, 7, rng.randint(0, most_bytes)))
        pieces.append(rng.choice(kinds)(content[start : start + length]))
        start += length
    return pieces


@pytest.mark.parametrize(
    ("size", "most_bytes"),
    [(0, 1), (1, 1), (5000, 3), (PART_BYTES, PART_BYTES), (PART_BYTES + 1, 90_000), (3 * PART_BYTES + 5, 9 << 20)],
)
def test_pieces_of_memory_are_written_as_one_object(writing: Subject, size: int, most_bytes: int) -> None:
    rng = random.Random(size)
    content = rng.randbytes(size)
    pieces = [b"", *pieces_of(rng, content, most_bytes), memoryview(bytearray())]
    info = writing.store.write_from("k", pieces)
    assert (info.key, info.size_bytes) == ("k", size)
    assert writing.store.read("k").data == content
    assert writing.store.head("k").version == info.version
    with pytest.raises(PreconditionFailedError):
        writing.store.write_from("k", pieces, if_absent=True)
    writing.store.write_from("k", [], if_version=info.version)
    assert writing.store.head("k").size_bytes == 0


def test_pieces_are_written_without_parts_too(writing: Subject) -> None:
    content = random.Random(1).randbytes(PART_BYTES + 1)
    info = writing.store.write_from("k", [content[:100], content[100:]], multipart=False)
    assert writing.store.read("k").data == content
    with pytest.raises(PreconditionFailedError):
        writing.store.write_from("k", [content], multipart=False, if_absent=True)
    assert writing.store.head("k").version == info.version


def test_what_is_no_memory_is_refused(writing: Subject) -> None:
    for wrong in ("text", [1, 2], None):
        with pytest.raises(ConfigError, match=f"bytearray or memoryview are needed; got {type(wrong).__name__}"):
            writing.store.write("k", wrong)
    with pytest.raises(ConfigError, match="got int"):
        writing.store.write_from("k", b"one piece is no sequence of pieces")
    writing.store.write_from("empty", [memoryview(numpy.empty((0, 3), numpy.float16))])
    assert [info.key for info in writing.store.list()] == ["empty"]


def test_a_writer_is_a_file_open_for_writing(writing: Subject) -> None:
    with writing.store.open_writer("k") as writer:
        assert (writer.writable(), writer.readable(), writer.seekable(), writer.closed) == (True, False, False, False)
        assert (writer.mode, writer.name) == ("wb", f"{writing.store.uri}/k")
        assert writer.tell() == 0
        writer.writelines([b"one", bytearray(b"two"), memoryview(b"three")])
        writer.flush()
        assert writer.tell() == 11
        for refused in (writer.read, writer.readline, writer.fileno, writer.truncate, lambda: writer.seek(0)):
            with pytest.raises(io.UnsupportedOperation):
                refused()
        with pytest.raises(StoreError, match="is not published: the write is not closed yet"):
            _ = writer.info
    assert writer.closed
    assert bytes(writing.store.read("k").data) == b"onetwothree"


def test_what_writes_files_writes_objects(writing: Subject) -> None:
    tensors = {"weight": torch.arange(300_000, dtype=torch.float32), "bias": torch.ones(7, dtype=torch.bfloat16)}
    with writing.store.open_writer("torch") as writer:
        torch.save(tensors, writer)
    loaded = torch.load(io.BytesIO(writing.store.read("torch").data))
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    with writing.store.open_writer("zip") as writer, zipfile.ZipFile(writer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", b"content" * 1000)
    with zipfile.ZipFile(io.BytesIO(writing.store.read("zip").data)) as archive:
        assert archive.read("member") == b"content" * 1000
    with writing.store.open_writer("pickle") as writer:
        pickle.dump(list(range(1000)), writer)
    assert pickle.loads(writing.store.read("pickle").data) == list(range(1000))
    with io.TextIOWrapper(writing.store.open_writer("text"), encoding="utf-8") as text:
        text.write("grün\n")
    with io.BufferedWriter(writing.store.open_writer("buffered"), 10) as buffered:
        buffered.write(b"ten bytes and more")
    assert bytes(writing.store.read("text").data) == "grün\n".encode()
    assert bytes(writing.store.read("buffered").data) == b"ten bytes and more"


def test_a_writer_takes_a_hint_of_its_size(writing: Subject) -> None:
    for hint in (0, 5, 3 * PART_BYTES):
        with writing.store.open_writer("k", size_hint=hint) as writer:
            writer.write(b"12345")
        assert writer.info.size_bytes == 5
    for wrong in (-1, 1.5, "5"):
        with pytest.raises(ConfigError, match="size_hint must be a whole number"):
            writing.store.open_writer("k", size_hint=wrong)


def test_nothing_is_there_before_close(writing: Subject) -> None:
    writing.store.write("k", b"old")
    writer = writing.store.open_writer("k")
    writer.write(b"new")
    assert bytes(writing.store.read("k").data) == b"old"
    writer.close()
    assert bytes(writing.store.read("k").data) == b"new"


@pytest.mark.parametrize("size", [3, 2 * PART_BYTES + 1])
def test_an_exception_leaves_nothing(writing: Subject, size: int) -> None:
    with pytest.raises(ZeroDivisionError), writing.store.open_writer("d/k") as writer:
        writer.write(bytes(size))
        raise ZeroDivisionError
    assert list(writing.store.list()) == []
    assert list(writing.store.list_uploads()) == []


@pytest.mark.parametrize("size", [3, 2 * PART_BYTES + 1])
def test_an_abort_keeps_what_was_there(writing: Subject, size: int) -> None:
    writing.store.write("k", b"old")
    writer = writing.store.open_writer("k")
    writer.write(bytes(size))
    writer.abort()
    writer.abort()
    assert bytes(writing.store.read("k").data) == b"old"
    assert list(writing.store.list_uploads()) == []
    for late in (lambda: writer.write(b"more"), writer.flush, writer.tell, writer.writable):
        with pytest.raises(ValueError, match="was aborted"):
            late()
    with pytest.raises(StoreError, match="was aborted"):
        writer.close()
    with pytest.raises(StoreError, match="is not published: the write was aborted"):
        _ = writer.info


def test_a_closed_writer_stays_closed(writing: Subject) -> None:
    writer = writing.store.open_writer("k")
    writer.close()
    for late in (lambda: writer.write(b"more"), writer.flush, writer.tell, writer.writable):
        with pytest.raises(ValueError, match=r"closed file: the write to .* is closed"):
            late()
    with pytest.raises(StoreError, match="published already"):
        writer.abort()
    assert writing.store.head("k").size_bytes == 0


@pytest.mark.parametrize("size", [3, PART_BYTES + 1])
def test_a_writer_that_is_forgotten_leaves_nothing(writing: Subject, size: int) -> None:
    writer = writing.store.open_writer("k")
    writer.write(bytes(size))
    del writer
    writing.store.close()  # waits for what was handed over
    assert list(writing.store.list()) == []
    assert list(writing.store.list_uploads()) == []


def test_a_write_in_progress_is_an_open_upload(writing: Subject) -> None:
    writer = writing.store.open_writer("d/k")
    writer.write(bytes(PART_BYTES + 1))
    uploads = list(writing.store.list_uploads("d/"))
    assert [upload.key for upload in uploads] == (["d/k"] if writing.shows_uploads else [])
    assert list(writing.store.list_uploads("e")) == []
    for upload in uploads:
        writing.store.abort_upload(upload)
        writing.store.abort_upload(upload)
        with pytest.raises(StoreError):
            writer.close()
    if not uploads:
        writer.abort()
    assert list(writing.store.list()) == []


def test_deleting_is_idempotent(made: Subject) -> None:
    made.put("d/k", b"")
    made.store.delete("d/k")
    made.store.delete("d/k")
    made.store.delete("never/there")
    with pytest.raises(NotFoundError):
        made.store.head("d/k")
    made.put("d", b"a name that was a folder's")
    assert [info.key for info in made.store.list()] == ["d"]


@pytest.mark.parametrize("size", [0, 11, 2 * PART_BYTES])
def test_a_copy_is_another_object(made: Subject, size: int) -> None:
    content = random.Random(size).randbytes(size)
    made.put("s o/urce+é", content)
    made.put("target", b"replaced")
    info = made.store.copy("s o/urce+é", "target")
    assert (info.key, info.size_bytes) == ("target", size)
    made.store.delete("s o/urce+é")
    assert made.store.read("target").data == content


def test_a_store_crosses_as_its_recipe(made: Subject) -> None:
    made.put("k", b"v")
    other = pickle.loads(pickle.dumps(made.store))
    assert other.uri == made.store.uri
    assert bytes(other.read("k").data) == b"v"
    other.close()


def test_a_closed_store_opens_again(made: Subject) -> None:
    made.put("k", b"v")
    made.store.close()
    made.store.close()
    assert bytes(made.store.read("k").data) == b"v"
