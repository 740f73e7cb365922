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
from torchbucket.store.scatter import Part

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


def parts_of(memory: bytearray, step: int) -> list[Part]:
    """The parts of an object whose bytes lie in ``memory``, each in two pieces."""
    parts = []
    for start in range(0, len(memory), step):
        view = memoryview(memory)[start : start + step]
        middle = len(view) // 2
        pieces = [(0, view[:middle]), (middle, view[middle:])]
        parts.append(Part(start=start, stop=start + len(view), pieces=pieces, targets=[0, 0]))
    return parts


@given(st.data())
def test_an_object_read_in_parts_is_right_in_the_end_or_refused(data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(COMBINABLE))
    whole = data.draw(st.binary(min_size=1, max_size=400))
    step = data.draw(st.integers(1, 100))
    most_fetches = data.draw(st.integers(1, 8))
    arrived = bytearray(len(whole))
    parts = parts_of(arrived, step)
    sums = PartSums(parts, most_fetches)
    checksum = Checksum(algorithm, algorithm.compute(whole))
    asked, fetches = parts, 0
    while True:
        fetches += 1
        assert fetches <= most_fetches
        damaged = False
        for part in asked:
            piece = bytearray(whole[part.start : part.stop])
            if data.draw(st.integers(0, 3)) == 0:
                piece[data.draw(st.integers(0, len(piece) - 1))] ^= data.draw(st.integers(1, 255))
                damaged = True
            arrived[part.start : part.stop] = piece
            # Now and then the algorithm is not known yet when a part arrives.
            sums.arrived(part, checksum if data.draw(st.booleans()) else None)
        try:
            asked = sums.suspects(checksum, "s3://b/k")
        except ChecksumError as error:
            assert arrived != whole
            assert error.attempts == fetches
            assert error.expected == checksum.text != error.computed == algorithm.of([arrived]).text
            return
        if not asked:
            assert arrived == whole
            return
        assert damaged or arrived != whole
        assert all(part in parts for part in asked)


def test_where_all_but_one_part_came_alike_only_that_is_fetched_again() -> None:
    algorithm = ALGORITHMS["crc32c"]
    whole = bytes(range(100))
    checksum = Checksum(algorithm, algorithm.compute(whole))
    arrived = bytearray(whole)
    parts = parts_of(arrived, 25)
    sums = PartSums(parts, 10)
    arrived[30] ^= 1
    assert sums.suspects(checksum, "s3://b/k") == parts
    arrived[30] ^= 3
    assert sums.suspects(checksum, "s3://b/k") == parts[1:2]
    arrived[30] ^= 2
    assert sums.suspects(checksum, "s3://b/k") == []


def test_the_same_wrong_bytes_twice_are_not_fetched_a_third_time() -> None:
    algorithm = ALGORITHMS["crc64nvme"]
    checksum = Checksum(algorithm, algorithm.compute(b"right"))
    parts = parts_of(bytearray(b"wrong"), 2)
    sums = PartSums(parts, 10)
    assert sums.suspects(checksum, "s3://b/k") == parts
    with pytest.raises(ChecksumError) as caught:
        sums.suspects(checksum, "s3://b/k")
    assert caught.value.attempts == 2


def test_a_digest_says_nothing_of_parts() -> None:
    algorithm = ALGORITHMS["sha256"]
    sums = PartSums(parts_of(bytearray(b"right"), 2), 10)
    assert sums.suspects(Checksum(algorithm, 1), "s3://b/k") == []
    assert sum_of_parts(algorithm, []) is None
