"""Memory that a read lands in is the bytes that the caller gets, and stays there for as long as a view does."""

from __future__ import annotations

import gc
import sys
from contextlib import closing

import pytest

from buckettestbed.launch import launch_testbed
from torchbucket import StoreConfig
from torchbucket.files.reader import ObjectReader
from torchbucket.store import Read, open_store
from torchbucket.store.writable_bytes import writable_bytes


@pytest.mark.parametrize("length", [2, 3, 255, 4097, (1 << 20) + 7])
def test_what_is_written_to_the_view_is_in_the_bytes(length):
    data, view = writable_bytes(length)
    assert type(data) is bytes
    assert (len(data), view.nbytes, view.format, view.readonly) == (length, length, "B", False)
    content = bytes(number % 251 for number in range(length))
    half = length // 2
    view[half:] = content[half:]
    view[:half] = content[:half]
    assert data == content
    assert data[length:] == b""
    assert hash(data) == hash(content)


def test_a_view_keeps_the_memory_alive_and_lets_it_go():
    data, view = writable_bytes(1 << 20)
    held = sys.getrefcount(data)
    part = view[10:20]
    del view
    gc.collect()
    assert sys.getrefcount(data) == held
    del data
    part[:] = b"0123456789"  # into memory that is still there
    assert bytes(part) == b"0123456789"


def test_new_memory_is_nobody_elses():
    first, view = writable_bytes(1000)
    view[:] = b"a" * 1000
    second, other = writable_bytes(1000)
    other[:] = b"b" * 1000
    assert first == b"a" * 1000
    assert second == b"b" * 1000


@pytest.mark.parametrize("length", [0, 1, -1])
def test_bytes_that_everybody_shares_are_refused(length):
    with pytest.raises(ValueError, match="shares"):
        writable_bytes(length)


def test_reading_a_large_object_whole_copies_nothing():
    content = bytes(range(256)) * 50_000
    with launch_testbed(buckets=["bucket"]) as testbed:
        config = StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True, part_size_bytes=5 << 20)
        with closing(open_store("s3://bucket", config)) as store:
            store.write("large", content)
            for size_bytes in (None, len(content)):
                found = store.submit_read(Read(key="large", size_bytes=size_bytes)).result()
                assert type(found.data) is bytes
                assert found.data == content
                assert ObjectReader.from_data(found, uri="s3://bucket/large").read() is found.data
