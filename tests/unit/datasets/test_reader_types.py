"""A reader is a binary file, and refuses what a binary file refuses."""

from __future__ import annotations

import io

import pytest

from torchbucket.files import ObjectReader
from torchbucket.store import open_store


@pytest.fixture(params=["whole", "lazy"])
def reader(request: pytest.FixtureRequest) -> ObjectReader:
    store = open_store("memory://reader-types")
    store.write("k", b"0123456789\nabc")
    uri = "memory://reader-types/k"
    if request.param == "whole":
        return ObjectReader.from_data(store.read("k"), uri=uri)
    return ObjectReader.lazy(store, "k", uri=uri)


@pytest.mark.parametrize("method", ["seek", "read", "read1", "readline", "peek"])
@pytest.mark.parametrize("wrong", [1.5, "1", b"1"])
def test_a_place_or_size_that_is_no_whole_number_is_refused(reader: ObjectReader, method: str, wrong: object) -> None:
    with pytest.raises(TypeError):
        getattr(reader, method)(wrong)
    assert reader.tell() == 0


def test_a_seek_beyond_the_end_reads_nothing_there(reader: ObjectReader) -> None:
    assert reader.seek(1000) == 1000
    assert (reader.read(), reader.read(5), reader.readline(), reader.read1(), reader.peek()) == (b"",) * 5
    assert reader.tell() == 1000
    assert reader.seek(-3, io.SEEK_END) == 11
    assert reader.read() == b"abc"


def test_a_reader_says_what_file_it_is(reader: ObjectReader) -> None:
    assert (reader.name, reader.mode) == ("memory://reader-types/k", "rb")
    assert (reader.readable(), reader.writable(), reader.seekable()) == (True, False, True)
    with pytest.raises(io.UnsupportedOperation):
        reader.write(b"x")
