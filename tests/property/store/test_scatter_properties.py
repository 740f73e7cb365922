"""Parts ask for every wanted byte once, for few others, and put each where it belongs, however the bytes arrive."""

from __future__ import annotations

import mmap
from itertools import pairwise

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from torchbucket.config import MIB
from torchbucket.store.http.body import Body, FlatBody, ScatteredBody, new_body
from torchbucket.store.scatter import plan_parts

CONTENT = bytes(number * 7 % 251 for number in range(600))

ranges = st.lists(
    st.tuples(st.integers(0, 550), st.integers(0, 50) | st.integers(0, 600)).map(
        lambda found: (found[0], min(len(CONTENT), found[0] + found[1]))
    ),
    max_size=30,
)


@settings(max_examples=examples(60))
@given(ranges=ranges, gap_bytes=st.integers(0, 80), part_bytes=st.integers(1, 300), data=st.data())
def test_parts_bring_each_target_its_bytes(
    ranges: list[tuple[int, int]], gap_bytes: int, part_bytes: int, data: st.DataObject
) -> None:
    memories = [bytearray(stop - start) for start, stop in ranges]
    targets = [(start, memoryview(memory)) for (start, _), memory in zip(ranges, memories, strict=True)]
    parts = plan_parts(targets, gap_bytes=gap_bytes, part_bytes=part_bytes)
    wanted = {byte for start, stop in ranges for byte in range(start, stop)}
    asked: set[int] = set()
    for part in parts:
        own = set(range(part.start, part.stop))
        assert 0 < len(own) <= part_bytes
        assert not own & asked
        assert {part.start, part.stop - 1} <= wanted
        asked |= own
        body = ScatteredBody(part.pieces)
        receive(body, CONTENT[part.start : part.stop], data)
        assert {targets[position][0] <= part.stop for position in part.targets} == {True}
    assert wanted <= asked
    assert [bytes(memory) for memory in memories] == [CONTENT[start:stop] for start, stop in ranges]
    unwanted = sorted(asked - wanted)
    longest = run = 0
    for before, byte in zip([-2, *unwanted], unwanted, strict=False):
        run = run + 1 if byte == before + 1 else 1
        longest = max(longest, run)
    assert longest <= gap_bytes
    assert all(part.stop <= following.start for part, following in pairwise(parts))


def receive(body: Body, content: bytes, data: st.DataObject) -> None:
    """Put the content in chunks of any length, after a part of it was put once in vain."""
    if data.draw(st.booleans()):
        body.put(0, bytes(len(content)))
    offset = 0
    while offset < len(content):
        length = data.draw(st.integers(1, 120))
        body.put(offset, content[offset : offset + length])
        offset += length


@settings(max_examples=examples(60))
@given(size=st.integers(1, 600), data=st.data())
def test_each_body_gives_what_it_took(size: int, data: st.DataObject) -> None:
    bodies = (new_body(size), FlatBody(memoryview(bytearray(size))))
    for body in bodies:
        receive(body, CONTENT[:size], data)
        assert bytes(body.data()) == CONTENT[:size]


@pytest.mark.parametrize("size_bytes", [1, 8 * MIB, 8 * MIB + 1, 100 << 30])
def test_targets_of_one_byte_to_100_gib_are_cut_into_parts(size_bytes: int) -> None:
    memory = memoryview(mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ))
    parts = plan_parts([(10**15, memory)], gap_bytes=0, part_bytes=8 * MIB)
    assert len(parts) == -(-size_bytes // (8 * MIB))
    assert (parts[0].start, parts[-1].stop) == (10**15, 10**15 + size_bytes)
    assert all(part.stop == following.start for part, following in pairwise(parts))
    assert sum(len(piece) for part in parts for _, piece in part.pieces) == size_bytes
    assert all(part.is_gapless for part in parts)
