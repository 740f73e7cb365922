"""Which ranges a lazy reader asks for, and that it never mixes versions of an object."""

from __future__ import annotations

import mmap
import os

import pytest
from scripted_store import ScriptedStore

from torchbucket import ObjectChangedError, TransportError, TruncatedError
from torchbucket.files import ObjectReader
from torchbucket.files.content import RangedContent
from torchbucket.store import ObjectData, ObjectInfo, open_store
from torchbucket.store.store_future import completed

BODY = bytes(range(256)) * 8
WINDOWS = {"first_window_bytes": 16, "largest_window_bytes": 64, "most_ahead": 3}


def open_lazily(store, *, size_bytes: int | None = len(BODY)) -> ObjectReader:
    content = RangedContent(store, "k", size_bytes=size_bytes, **WINDOWS)
    return ObjectReader(content, key="k", uri="memory://scripted/k")


@pytest.fixture
def store() -> ScriptedStore:
    return ScriptedStore({"k": BODY})


def ranges(store: ScriptedStore) -> list[tuple[int, int | None]]:
    return [(request.start, request.stop) for request in store.requests]


def test_read_ahead_grows_while_the_reads_are_sequential(store):
    reader = open_lazily(store)
    got = b"".join(reader.read(4) for _ in range(64))
    assert got == BODY[:256]
    # The second window continues the first, so from then on the next is under way: twice as long each, up to 64, and
    # then one more with each 64 bytes that were read, up to three.
    assert ranges(store) == [(0, 16), (16, 48), (48, 112), *((start, start + 64) for start in range(112, 496, 64))]
    assert store.outstanding() == ["k"] * 3


def test_a_short_way_ahead_is_no_jump(store):
    reader = open_lazily(store)
    for _ in range(20):
        reader.read(4)
    assert reader.seek(30, os.SEEK_CUR) == 110
    assert reader.read(4) == BODY[110:114]
    reader.seek(240)
    store.requests.clear()
    assert reader.read(4) == BODY[240:244]
    assert ranges(store)[0] == (304, 368)  # its own is under way, and nothing was asked for again


def test_read_ahead_starts_small_again_after_a_jump(store):
    reader = open_lazily(store)
    for _ in range(20):
        reader.read(4)
    store.requests.clear()
    reader.seek(1000)
    assert reader.read(4) == BODY[1000:1004]
    assert ranges(store) == [(1000, 1016)]
    reader.seek(2)
    assert reader.read(4) == BODY[2:6]
    assert ranges(store)[1:] == [(2, 18)]


def test_a_jump_drops_the_request_under_way(store):
    reader = open_lazily(store)
    for _ in range(5):
        reader.read(4)
    assert store.outstanding() == ["k"]
    reader.seek(1000)
    reader.read(1)
    assert store.outstanding() == []
    assert store.cancelled() == ["k"]


def test_reads_within_the_window_send_nothing(store):
    reader = open_lazily(store)
    reader.read(1)
    for position in (15, 3, 8):
        reader.seek(position)
        assert reader.read(1) == BODY[position : position + 1]
    assert ranges(store) == [(0, 16)]


def test_a_long_read_is_one_request_straight_into_the_callers_memory(store):
    reader = open_lazily(store)
    target = bytearray(500)
    assert reader.readinto(target) == 500
    assert target == BODY[:500]
    assert reader.read(1000) == BODY[500:1500]
    assert reader.read() == BODY[1500:]
    # What follows the second is under way meanwhile, as much as the reader may hold.
    windows = [(1500, 1564), (1564, 1628), (1628, 1692)]
    assert ranges(store) == [(0, 500), (500, 1500), *windows, (1692, 2048)]


def test_a_short_read_that_continues_a_long_one_is_sequential(store):
    reader = open_lazily(store)
    assert reader.readinto(bytearray(500)) == 500
    reader.read(4)
    windows = [(564, 628), (628, 692), (692, 756)]  # under way
    assert ranges(store) == [(0, 500), (500, 564), *windows]


def test_a_long_read_uses_what_is_there_and_under_way(store):
    reader = open_lazily(store)
    for _ in range(5):
        reader.read(4)
    assert reader.read(1000) == BODY[20:1020]
    windows = [(1020, 1084), (1084, 1148), (1148, 1212)]
    assert ranges(store) == [(0, 16), (16, 48), (48, 112), (112, 1020), *windows]


def test_a_read_far_beyond_the_end_asks_for_what_exists(store):
    reader = open_lazily(store)
    reader.seek(2040)
    assert reader.read(1 << 60) == BODY[2040:]
    assert reader.read(1 << 60) == b""
    assert ranges(store) == [(2040, 2056)]


def test_an_unknown_size_arrives_with_the_first_bytes(store):
    reader = open_lazily(store, size_bytes=None)
    assert reader.read(4) == BODY[:4]
    assert reader.size_bytes == len(BODY)
    assert open_lazily(store, size_bytes=None).read() == BODY
    assert open_lazily(store, size_bytes=None).read(100) == BODY[:100]
    assert store.heads == []
    reader = open_lazily(store, size_bytes=None)
    reader.seek(-4, os.SEEK_END)
    assert reader.read() == BODY[-4:]
    assert store.heads == ["k"]
    assert store.requests[-1].version == "1"  # the head's


def test_every_request_after_the_first_asks_for_its_version(store):
    store.versions["k"] = "seven"
    reader = open_lazily(store)
    for position in (0, 1000, 500):
        reader.seek(position)
        reader.read(1)
    assert [request.version for request in store.requests] == [None, "seven", "seven"]


def test_an_object_overwritten_meanwhile_is_never_mixed():
    store = open_store("memory://lazy-overwritten")
    store.write("k", b"a" * 1000)
    reader = open_lazily(store, size_bytes=None)
    assert reader.read(10) == b"a" * 10
    store.write("k", b"b" * 1000)
    assert reader.read(6) == b"a" * 6  # from the window
    with pytest.raises(ObjectChangedError, match="lazy-overwritten/k"):
        reader.read(10)


def test_closing_drops_the_request_under_way_and_the_memory(store):
    reader = open_lazily(store)
    for _ in range(5):
        reader.read(4)
    reader.close()
    reader.close()
    assert store.outstanding() == []
    for call in (reader.read, reader.tell, reader.readline, reader.peek, reader.readable, reader.seekable):
        with pytest.raises(ValueError, match="memory://scripted/k is closed"):
            call()
    with pytest.raises(ValueError, match="closed"):
        _ = reader.size_bytes
    assert repr(reader) == "<ObjectReader memory://scripted/k closed>"


def test_a_forked_child_asks_anew(store, monkeypatch):
    reader = open_lazily(store)
    for _ in range(5):
        reader.read(4)
    parents = store.requests[-1].future
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert reader.read(40) == BODY[20:60]  # past the window, which the child has too
    assert not parents.done()
    assert ranges(store)[2:] == [(48, 112), (48, 112), (112, 176)]
    reader.close()
    assert not parents.cancelled()


def test_a_failed_read_can_be_tried_again(store):
    reader = open_lazily(store)
    store.failures["k"] = TransportError("the connection was reset")
    with pytest.raises(TransportError):
        reader.read(4)
    store.failures.clear()
    assert reader.tell() == 0
    assert reader.read(4) == BODY[:4]


def test_a_store_that_answers_short_is_found_out(store):
    reader = open_lazily(store)
    reader.read(1)
    store.bodies = {"k": b""}
    store.announced_bytes = len(BODY)
    reader.seek(100)
    with pytest.raises(TruncatedError, match="a read of 16 bytes from 100 with 0 bytes"):
        reader.read(4)


def test_an_interrupted_wait_leaves_no_request_behind(store):
    store.failures["k"] = KeyboardInterrupt()
    reader = open_lazily(store)
    with pytest.raises(KeyboardInterrupt):
        reader.read(4)
    assert store.outstanding() == []


def test_the_size_is_asked_of_the_pinned_version_only():
    store = open_store("memory://pinned-size")
    old = store.write("k", BODY)
    store.write("k", BODY[:100])
    reader = ObjectReader.lazy(store, "k", uri="memory://pinned-size/k", version=old.version)
    with pytest.raises(ObjectChangedError):
        reader.seek(0, os.SEEK_END)


class EndlessStore(ScriptedStore):
    """An object of some GiB, whose bytes nobody looks at."""

    def submit_read(self, read):
        self.requests.append(read)
        stop = min(read.stop, self.announced_bytes)
        data = read.into[: stop - read.start] if read.into is not None else memoryview(bytes(stop - read.start))
        info = ObjectInfo(key=read.key, size_bytes=self.announced_bytes, version="1")
        return completed(lambda: ObjectData(info=info, start=read.start, data=data))


def test_one_read_of_more_than_two_gibibytes():
    store = EndlessStore({}, announced_bytes=5 << 30)
    reader = ObjectReader(RangedContent(store, "k", size_bytes=5 << 30), key="k", uri="memory://scripted/k")
    memory = mmap.mmap(-1, 3 << 30)  # no page of it is touched
    reader.seek(1 << 30)
    assert reader.readinto(memory) == 3 << 30
    assert reader.tell() == 4 << 30
    assert reader.readinto(memory) == 1 << 30  # what is left
    assert [(read.start, read.stop) for read in store.requests if read.into is not None] == [
        (1 << 30, 4 << 30),
        (4 << 30, 7 << 30),
    ]
