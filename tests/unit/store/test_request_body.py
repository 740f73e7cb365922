"""A body in pieces of memory gives its bytes in order, in chunks worth a system call, and is cut into parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchbucket.config import MIB
from torchbucket.store.http.whole_write import part_bytes_of
from torchbucket.store.transport.body import Body, in_parts

GIB, TIB = 1 << 30, 1 << 40

LENGTHS = st.lists(st.sampled_from([0, 1, 3, 1000, 70_000, 262_143, 262_144, 262_145, 3_000_000]), max_size=12)


def memory(lengths: list[int]) -> list[memoryview]:
    return [memoryview(bytes([number + 1]) * length) for number, length in enumerate(lengths)]


@given(lengths=LENGTHS, most_bytes=st.sampled_from([1000, 16 << 10, 262_144, 2 << 20]))
def test_a_body_is_its_pieces_in_order(lengths: list[int], most_bytes: int) -> None:
    body = Body(memory(lengths))
    assert len(body) == sum(lengths)
    for _ in range(2):  # each attempt reads from the beginning
        read, chunks = body.reader(), []
        while len(chunk := read(most_bytes)):
            chunks.append(bytes(chunk))
        assert b"".join(chunks) == b"".join(memory(lengths))
        assert all(len(chunk) <= most_bytes for chunk in chunks)
        assert len(read(most_bytes)) == 0


@given(lengths=LENGTHS)
def test_small_pieces_are_joined_and_large_ones_are_not_copied(lengths: list[int]) -> None:
    read, chunks = Body(memory(lengths)).reader(), []
    while len(chunk := read(2 << 20)):
        chunks.append(chunk)
    # What is smaller is the last, or the end of a piece whose beginning was too long for one chunk.
    small = [chunk for chunk in chunks[:-1] if len(chunk) < 256 << 10]
    assert not small
    assert all(len(chunk) == 256 << 10 for chunk in chunks[:-1] if isinstance(chunk, bytes))


@given(lengths=LENGTHS, part_bytes=st.sampled_from([1, 1000, 262_144, 5 << 20]).filter(lambda size: size > 1))
def test_parts_are_full_but_for_the_last(lengths: list[int], part_bytes: int) -> None:
    parts = list(in_parts(memory(lengths), part_bytes))
    assert all(len(part) == part_bytes for part in parts[:-1])
    assert all(0 < len(part) <= part_bytes for part in parts)
    joined = b"".join(bytes(piece) for part in parts for piece in part.pieces)
    assert joined == b"".join(memory(lengths))


def test_the_parts_of_an_object_of_known_size_are_never_too_many() -> None:
    for part_bytes in (5 * MIB, 8 * MIB, 5 * GIB):
        for size_bytes in (
            part_bytes + 1,
            5 * GIB + 1,
            80 * GIB,
            10_000 * part_bytes,
            10_000 * part_bytes + 1,
            5 * TIB,
        ):
            if size_bytes > 10_000 * 5 * GIB:
                continue  # larger than an object can be
            length = part_bytes_of(size_bytes, part_bytes, 10_000)
            assert -(-size_bytes // length) <= 10_000
            assert part_bytes <= length <= 5 * GIB
            assert length == part_bytes or size_bytes > 10_000 * part_bytes
