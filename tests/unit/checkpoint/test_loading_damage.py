"""A damaged, cut, altered or overwritten checkpoint gives a typed error; damage on the way does not even that."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from saved_objects import assert_same, torch_bytes

from torchbucket import CheckpointError, NotFoundError, ObjectChangedError, TruncatedError
from torchbucket.checkpoint import archive_layout, load_from
from torchbucket.store import ObjectData, ObjectInfo, Read, Store, open_store
from torchbucket.store.protocol import Target
from torchbucket.store.wrappers import ForwardingStore

STATE = {"weight": torch.arange(3000.0), "more": [torch.full((number,), 2.0) for number in range(1, 5)]}


@pytest.fixture
def store() -> Store:
    return open_store("memory://damage")


class DamagingStore(ForwardingStore):
    """Changes one byte of the first answers that are no whole object, as a faulty network does."""

    def __init__(self, inner: Store, position: int, times: int) -> None:
        super().__init__(inner)
        self._position = position
        self._left = times

    def submit_read(self, read: Read) -> Future[ObjectData]:
        data = self.inner.submit_read(read).result()
        damaged = bytearray(data.data)
        offset = self._position - data.start
        if self._left and 0 <= offset < len(damaged):
            self._left -= 1
            damaged[offset] ^= 0x11
        done: Future[ObjectData] = Future()
        done.set_result(ObjectData(info=data.info, start=data.start, data=bytes(damaged)))
        return done


def test_a_byte_changed_on_the_way_changes_nothing(store: Store) -> None:
    saved = torch_bytes(STATE)
    store.write("k", saved)
    wanted = torch.load(io.BytesIO(saved))
    directory = zipfile.ZipFile(io.BytesIO(saved)).start_dir
    # The magic number, the pickle, a header, a storage, the directory, its end.
    places = [0, *range(64, 1500, 97), 5000, *range(directory, len(saved), 41), *range(len(saved) - 22, len(saved), 3)]
    for place in places:
        assert_same(load_from(DamagingStore(store, place, 1), "k"), wanted)


def test_a_cut_checkpoint(store: Store) -> None:
    for form in (True, False):
        saved = torch_bytes(STATE, _use_new_zipfile_serialization=form)
        for length in [0, 1, 4, 100, 600, 1000, 9000, len(saved) - 40, len(saved) - 1]:
            store.write("k", saved[:length])
            with pytest.raises(CheckpointError, match="memory://damage/k"):
                load_from(store, "k")


def test_what_is_no_checkpoint(store: Store) -> None:
    for content in (b"hello, this is a text", b"PK\x03\x04 and nothing more", bytes(5000), b"\x80\x02}q\x00."):
        store.write("k", content)
        with pytest.raises(CheckpointError) as raised:
            load_from(store, "k")
        assert raised.value.uri == "memory://damage/k"
    with pytest.raises(NotFoundError):
        load_from(store, "absent")


def test_a_storage_shorter_than_the_pickle_says(store: Store) -> None:
    saved = torch_bytes(torch.ones(1000))
    length = b"cpuq\x04M\xe8\x03"  # the storage's length in the pickle, 1000
    assert saved.count(length) == 1
    store.write("k", saved.replace(length, b"cpuq\x04M\xe9\x03"))
    with pytest.raises(CheckpointError, match="4000 bytes and the pickle says 4004"):
        load_from(store, "k")


def test_archives_that_others_wrote(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = torch_bytes(STATE)
    wanted = torch.load(io.BytesIO(saved))
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(saved)) as source, zipfile.ZipFile(file, "w", compression) as target:
            for name in source.namelist():
                target.writestr(name, source.read(name))
        store.write("k", file.getvalue())
        assert_same(load_from(store, "k"), wanted)
    # Bytes between two records, of which the directory does not tell.
    monkeypatch.setattr(archive_layout, "_DESCRIPTOR_BYTES", 12)
    store.write("k", saved)
    assert_same(load_from(store, "k"), wanted)


class ChangingStore(ForwardingStore):
    """An object that is overwritten just before most of it is read."""

    def __init__(self, inner: Store, content: bytes) -> None:
        super().__init__(inner)
        self._content = content

    def submit_read_into(self, key: str, targets: Sequence[Target], **options: Any) -> Future[ObjectInfo]:
        self.inner.write(key, self._content)
        return self.inner.submit_read_into(key, targets, **options)


def test_an_object_overwritten_meanwhile(store: Store) -> None:
    for form in (True, False):
        store.write("k", torch_bytes(STATE, _use_new_zipfile_serialization=form))
        with pytest.raises(ObjectChangedError):
            load_from(ChangingStore(store, torch_bytes({"weight": torch.zeros(3000)})), "k")


class ShortStore(ForwardingStore):
    """Answers a read with a byte too few."""

    def submit_read(self, read: Read) -> Future[ObjectData]:
        data = self.inner.submit_read(read).result()
        done: Future[ObjectData] = Future()
        done.set_result(ObjectData(info=data.info, start=data.start, data=data.data[:-1]))
        return done


def test_a_store_that_gives_too_little(store: Store) -> None:
    store.write("k", torch_bytes(STATE))
    with pytest.raises(TruncatedError):
        load_from(ShortStore(store), "k")


def test_a_tensor_beyond_an_empty_storage_is_refused_as_torch_refuses_it(store: Store) -> None:
    """It would be given memory that nobody has written."""
    saved = torch_bytes({"a": torch.empty(0)})
    assert saved.count(b"K\x00\x85") == 1
    store.write("k", saved.replace(b"K\x00\x85", b"K\x64\x85"))
    with pytest.raises(RuntimeError, match="not resizable"):
        load_from(store, "k")
