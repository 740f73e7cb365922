"""Checksums of parts make that of the whole, in any split; a wrong part is found, whatever is damaged how often."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket.errors import ChecksumError
from torchbucket.store.http.checksums import ALGORITHMS, Algorithm, Checksum
from torchbucket.store.http.part_sums import PartSums
from torchbucket.store.http.uploads import UploadedPart, sum_of_parts

COMBINABLE = [algorithm for algorithm in ALGORITHMS.values() if algorithm.combine is not None]

# The check values of the catalogue of parametrised CRC algorithms, for the bytes "123456789", and of the digests.
CHECK_VALUES = {
    "crc64nvme": 0xAE8B14860A799888,
    "crc32c": 0xE3069283,
    "crc32": 0xCBF43926,
    "sha256": 0x15E2B0D3C33891EBB0F1EF609EC419420C20E320CE94C65FBC8C3312448EB225,
    "sha1": 0xF7C3BC1D808E04732ADF679965CCC34CA7AE3441,
}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_known_values(name: str) -> None:
    algorithm = ALGORITHMS[name]
    value = CHECK_VALUES[name]
    for data in (b"123456789", bytearray(b"123456789"), memoryview(b"x123456789x")[1:-1]):
        assert algorithm.compute(data) == value
    text = base64.b64encode(value.to_bytes(algorithm.length_bytes, "big")).decode()
    assert algorithm.text(value) == algorithm.of([b"123456789"]).text == text
    assert algorithm.read(text) == Checksum(algorithm, value)


@given(st.binary(max_size=5000))
def test_the_crc_32_is_zlibs(data: bytes) -> None:
    assert ALGORITHMS["crc32"].compute(data) == zlib.crc32(data)


@given(st.sampled_from(list(ALGORITHMS.values())), st.text(max_size=100))
def test_any_text_is_a_checksum_of_the_right_length_or_none(algorithm: Algorithm, text: str) -> None:
    found = algorithm.read(text)
    if found is not None:
        assert 0 <= found.value < 1 << (8 * algorithm.length_bytes)
        assert found.text == text


@given(st.sampled_from(COMBINABLE), st.lists(st.binary(max_size=300), max_size=12))
def test_the_parts_of_an_upload_make_the_checksum_of_the_whole(algorithm: Algorithm, pieces: list[bytes]) -> None:
    parts = [
        UploadedPart(number=number, size_bytes=len(piece), tag="", checksum=algorithm.of([piece]).text)
        for number, piece in enumerate(pieces, start=1)
    ]
    whole = b"".join(pieces)
    assert sum_of_parts(algorithm, parts) == Checksum(algorithm, algorithm.compute(whole))
    unknown = UploadedPart(number=len(parts) + 1, size_bytes=1, tag="", checksum=None)
    assert sum_of_parts(algorithm, [*parts, unknown]) is None


@given(st.data())
def test_an_object_read_in_parts_is_right_in_the_end_or_refused(data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(COMBINABLE))
    whole = data.draw(st.binary(min_size=1, max_size=400))
    step = data.draw(st.integers(1, 100))
    starts = range(0, len(whole), step)
    most_fetches = data.draw(st.integers(1, 8))
    sums = PartSums(most_fetches)
    sums.expect(starts, len(whole))
    checksum = Checksum(algorithm, algorithm.compute(whole))
    arrived = bytearray(len(whole))
    asked, fetches = list(starts), 0
    while True:
        fetches += 1
        assert fetches <= most_fetches
        damaged = False
        for start in asked:
            piece = bytearray(whole[start : start + step])
            if data.draw(st.integers(0, 3)) == 0:
                piece[data.draw(st.integers(0, len(piece) - 1))] ^= data.draw(st.integers(1, 255))
                damaged = True
            arrived[start : start + step] = piece
            # Now and then the algorithm is not known yet when a part arrives.
            sums.arrived(start, piece, checksum if data.draw(st.booleans()) else None)
        try:
            asked = sums.suspects(checksum, arrived, "s3://b/k")
        except ChecksumError as error:
            assert arrived != whole
            assert error.attempts == fetches
            assert error.expected == checksum.text != error.computed == algorithm.of([arrived]).text
            return
        if not asked:
            assert arrived == whole
            return
        assert damaged or arrived != whole
        assert set(asked) <= set(starts)


def test_where_all_but_one_part_came_alike_only_that_is_fetched_again() -> None:
    algorithm = ALGORITHMS["crc32c"]
    whole = bytes(range(100))
    checksum = Checksum(algorithm, algorithm.compute(whole))
    sums = PartSums(10)
    sums.expect(range(0, 100, 25), 100)
    first, second, third = bytearray(whole), bytearray(whole), bytearray(whole)
    first[30] ^= 1
    second[30] ^= 2
    assert sums.suspects(checksum, first, "s3://b/k") == [0, 25, 50, 75]
    assert sums.suspects(checksum, second, "s3://b/k") == [25]
    assert sums.suspects(checksum, third, "s3://b/k") == []


def test_the_same_wrong_bytes_twice_are_not_fetched_a_third_time() -> None:
    algorithm = ALGORITHMS["crc64nvme"]
    checksum = Checksum(algorithm, algorithm.compute(b"right"))
    sums = PartSums(10)
    sums.expect(range(0, 5, 2), 5)
    assert sums.suspects(checksum, bytearray(b"wrong"), "s3://b/k") == [0, 2, 4]
    with pytest.raises(ChecksumError) as caught:
        sums.suspects(checksum, bytearray(b"wrong"), "s3://b/k")
    assert caught.value.attempts == 2


def test_a_digest_says_nothing_of_parts() -> None:
    algorithm = ALGORITHMS["sha256"]
    sums = PartSums(10)
    sums.expect(range(0, 5, 2), 5)
    assert sums.suspects(Checksum(algorithm, 1), bytearray(b"right"), "s3://b/k") == []
    assert sum_of_parts(algorithm, []) is None
