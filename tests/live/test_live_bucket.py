"""A real bucket: TORCHBUCKET_LIVE_URI=s3://bucket/prefix or gs://…, credentials as docs/stores.md says.

Writes some 30 MiB under a fresh name below the prefix and removes them again.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator

import pytest

from torchbucket import MapDataset, NotFoundError, PreconditionFailedError, StoreConfig, UnsupportedError
from torchbucket.store import Store, open_store
from torchbucket.uri import ObjectURI

pytestmark = pytest.mark.live

MIB = 1 << 20
CONFIG = StoreConfig(part_size_bytes=8 * MIB)
NAMES = ["plain", "a b+c%2F?#é", "double//slash", "trailing/"]


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Store, str]]:
    """The store, and a prefix of this run's own."""
    uri = os.environ.get("TORCHBUCKET_LIVE_URI")
    if not uri:
        pytest.fail("set TORCHBUCKET_LIVE_URI to a bucket and prefix that these tests may write under")
    location = ObjectURI.parse(uri)
    store = open_store(location, CONFIG)
    prefix = f"{location.key.rstrip('/')}/{uuid.uuid4().hex}/".lstrip("/")
    yield store, prefix
    for info in list(store.list(prefix)):
        store.delete(info.key)
    assert list(store.list_uploads(prefix)) == []


def test_names_and_content_come_back_byte_for_byte(place: tuple[Store, str]) -> None:
    store, prefix = place
    for name in NAMES:
        store.write(f"{prefix}names/{name}", name.encode())
    assert [info.key for info in store.list(f"{prefix}names/")] == sorted(
        (f"{prefix}names/{name}" for name in NAMES), key=str.encode
    )
    dataset = MapDataset.from_prefix(f"{store.uri}/{prefix}names/", config=CONFIG)
    assert sorted(dataset[index] for index in range(len(dataset))) == sorted(name.encode() for name in NAMES)


def test_a_large_object_is_written_and_read_in_parts(place: tuple[Store, str]) -> None:
    store, prefix = place
    body = random.Random(1).randbytes(25 * MIB + 7)
    with store.open_writer(f"{prefix}large") as writer:
        for start in range(0, len(body), 3 * MIB):
            writer.write(body[start : start + 3 * MIB])
    assert bytes(store.read(f"{prefix}large").data) == body
    assert bytes(store.read(f"{prefix}large", start=5 * MIB, stop=20 * MIB).data) == body[5 * MIB : 20 * MIB]


def test_what_is_not_there_is_said(place: tuple[Store, str]) -> None:
    store, prefix = place
    with pytest.raises(NotFoundError, match="absent"):
        store.read(f"{prefix}absent")


def test_an_aborted_write_leaves_nothing(place: tuple[Store, str]) -> None:
    store, prefix = place
    with pytest.raises(RuntimeError, match="stop"), store.open_writer(f"{prefix}aborted") as writer:
        writer.write(bytes(20 * MIB))
        raise RuntimeError("stop")
    with pytest.raises(NotFoundError):
        store.head(f"{prefix}aborted")
    assert list(store.list_uploads(prefix)) == []


@pytest.mark.parametrize("size_bytes", [1000, 9 * MIB])
def test_conditions_hold(place: tuple[Store, str], size_bytes: int) -> None:
    """On Cloud Storage the larger one goes by way of a temporary object, of which nothing must be left."""
    store, prefix = place
    key = f"{prefix}conditions/{size_bytes}"
    first = store.write(key, b"1" * size_bytes, if_absent=True)
    with pytest.raises(PreconditionFailedError):
        store.write(key, b"2" * size_bytes, if_absent=True)
    second = store.write(key, b"3" * size_bytes, if_version=first.version)
    with pytest.raises(PreconditionFailedError):
        store.write(key, b"4" * size_bytes, if_version=first.version)
    with pytest.raises(PreconditionFailedError):
        store.delete(key, if_version=first.version)
    assert bytes(store.read(key, version=second.version).data) == b"3" * size_bytes
    assert [info.key for info in store.list(key)] == [key]
    store.delete(key, if_version=second.version)
    store.delete(key, if_version=second.version)


def test_objects_are_composed_or_refused(place: tuple[Store, str]) -> None:
    store, prefix = place
    sources = [store.write(f"{prefix}compose/{number:02}", b"%d" % number) for number in range(40)]
    target = f"{prefix}compose/whole"
    if store.uri.startswith("s3://"):
        with pytest.raises(UnsupportedError):
            store.compose(sources, target)
        return
    store.compose(sources, target)
    assert bytes(store.read(target).data) == b"".join(b"%d" % number for number in range(40))
    assert len(list(store.list(f"{prefix}compose/"))) == 41


def test_a_copy_is_the_same(place: tuple[Store, str]) -> None:
    store, prefix = place
    store.write(f"{prefix}copy/source", b"content")
    store.copy(f"{prefix}copy/source", f"{prefix}copy/target")
    assert bytes(store.read(f"{prefix}copy/target").data) == b"content"
