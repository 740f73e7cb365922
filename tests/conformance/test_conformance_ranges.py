"""Every store's writer appends ranges of other objects, whoever moves the bytes."""

from __future__ import annotations

import random

import pytest
from conformance_subjects import PART_BYTES, Subject

from torchbucket.errors import ConfigError, NotFoundError, ObjectChangedError
from torchbucket.store import ObjectInfo


@pytest.fixture(scope="module")
def content() -> bytes:
    return random.Random(1).randbytes(2 * PART_BYTES + 5)


@pytest.mark.parametrize("hint", [7 * PART_BYTES, pytest.param(None, marks=pytest.mark.nightly)])
def test_ranges_and_bytes_follow_one_another(writing: Subject, content: bytes, hint: int | None) -> None:
    source, other = writing.put("source", content), writing.put("other", b"0123456789")
    size = len(content)
    with writing.store.open_writer("k", size_hint=hint) as writer:
        assert writer.write(b"head") == 4
        assert writer.write_range(source, 3, size) == size - 3  # after less than a part, to the end
        assert writer.write_range(other, 2, 5) == 3
        assert writer.write_range(source, 9, 9) == 0
        assert writer.write_range(source, 0, PART_BYTES) == PART_BYTES
        writer.write_range(source, PART_BYTES, size)  # which begins with a part
        writer.write(b"tail")
        expected = b"head" + content[3:] + b"234" + content + b"tail"
        assert writer.tell() == len(expected)
    found = writing.store.read("k")
    assert bytes(found.data) == expected
    assert writer.info == ObjectInfo(
        key="k",
        size_bytes=len(expected),
        version=found.info.version,
        last_modified_s=writer.info.last_modified_s,
    )
    assert not list(writing.store.list_uploads())


def test_a_range_may_be_all(writing: Subject, content: bytes) -> None:
    for data in (b"x", content):
        source = writing.put("source", data)
        with writing.store.open_writer("k") as writer:
            writer.write_range(source, 0, len(data))
        assert bytes(writing.store.read("k").data) == data


def test_the_source_is_pinned(writing: Subject, content: bytes) -> None:
    # moto ignores the version of what a part is copied from.
    for data in (b"short",) if writing.name == "s3-moto" else (content, b"short"):
        old = writing.put("source", data)
        writing.put("source", data[::-1])
        with pytest.raises(ObjectChangedError, match="source"), writing.store.open_writer("k") as writer:
            writer.write_range(old, 0, len(data))
        with pytest.raises(NotFoundError, match="missing"), writing.store.open_writer("k") as writer:
            writer.write_range(ObjectInfo(key="missing", size_bytes=len(data)), 0, len(data))
        assert [info.key for info in writing.store.list()] == ["source"]
    assert not list(writing.store.list_uploads())


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 11), (11, 12)])
def test_what_is_no_range_ends_the_write(writing: Subject, start: int, stop: int) -> None:
    source = writing.put("source", b"0123456789")
    with pytest.raises(ConfigError, match="no range of 'source'"), writing.store.open_writer("k") as writer:
        writer.write_range(source, start, stop)
    assert [info.key for info in writing.store.list()] == ["source"]
    with pytest.raises(ValueError, match="aborted"):
        writer.write_range(source, 0, 1)


def test_what_the_server_moves_is_told(writing: Subject) -> None:
    least = writing.store.least_copy_bytes
    if writing.name.startswith("s3"):
        assert least == PART_BYTES
    else:
        assert least == (1 if writing.name.startswith("memory") else None)
