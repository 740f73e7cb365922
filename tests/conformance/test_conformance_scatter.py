"""Every store fills many pieces of memory from one object, whatever their order, and writes nowhere else."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest
from conformance_subjects import PART_BYTES, Subject

from torchbucket.errors import ConfigError, NotFoundError, ObjectChangedError, TruncatedError
from torchbucket.store.protocol import Target

CONTENT = random.Random(11).randbytes(5000)
LARGE = random.Random(12).randbytes(2 * PART_BYTES + 12_345)


def targets_of(ranges: list[tuple[int, int]]) -> tuple[list[Target], list[bytearray]]:
    """Memory for each range, with seven bytes before and after it that must stay as they are."""
    memories = [bytearray(b"\xee" * (stop - start + 14)) for start, stop in ranges]
    return [(start, memoryview(memory)[7:-7]) for (start, _), memory in zip(ranges, memories, strict=True)], memories


def assert_filled(ranges: list[tuple[int, int]], memories: list[bytearray], content: bytes) -> None:
    around = b"\xee" * 7
    for (start, stop), memory in zip(ranges, memories, strict=True):
        assert memory == around + content[start:stop] + around, (start, stop)


RANGES = {
    "one": [(0, 5000)],
    "one byte": [(4999, 5000)],
    "neighbours": [(0, 10), (10, 700), (700, 701)],
    "in any order": [(4000, 5000), (3, 90), (1000, 1001), (2, 3)],
    "overlapping": [(100, 900), (0, 500), (200, 300), (100, 900), (899, 1000)],
    "of no bytes": [(5, 5), (0, 3), (5000, 5000), (9000, 9000)],
    "of no bytes alone": [(7, 7)],
    "none": [],
}


def test_each_target_gets_its_bytes(made: Subject) -> None:
    version = made.put("k", CONTENT).version
    for name, gap_bytes, size_bytes in product(RANGES, (0, 50, 1 << 20), (None, len(CONTENT))):
        ranges, case = RANGES[name], (name, gap_bytes, size_bytes)
        targets, memories = targets_of(ranges)
        full: list[int] = []
        info = made.store.submit_read_into(
            "k", targets, size_bytes=size_bytes, gap_bytes=gap_bytes, filled=full.append
        ).result()
        assert_filled(ranges, memories, CONTENT)
        assert (info.key, info.size_bytes, info.version) == ("k", 5000, version), case
        assert sorted(full) == list(range(len(ranges))), case


@pytest.mark.parametrize("size_known", [False, True])
def test_large_targets_are_split(made: Subject, size_known: bool) -> None:
    made.put("large", LARGE)
    ranges = [(PART_BYTES - 9, len(LARGE)), (40, 80), (100, PART_BYTES - 50), (5, PART_BYTES + 5)]
    targets, memories = targets_of(ranges)
    full: list[int] = []
    size_bytes = len(LARGE) if size_known else None
    made.store.submit_read_into("large", targets, size_bytes=size_bytes, filled=full.append).result()
    assert_filled(ranges, memories, LARGE)
    assert sorted(full) == [0, 1, 2, 3]


def test_a_whole_object_into_many_pieces(made: Subject) -> None:
    made.put("large", LARGE)
    cuts = sorted({0, len(LARGE), *random.Random(1).sample(range(len(LARGE)), 200)})
    ranges = list(pairwise(cuts))
    random.Random(2).shuffle(ranges)
    targets, memories = targets_of(ranges)
    made.store.submit_read_into("large", targets, size_bytes=len(LARGE)).result()
    assert_filled(ranges, memories, LARGE)


def test_ten_thousand_targets(made: Subject) -> None:
    made.put("large", LARGE)
    starts = random.Random(3).sample(range(len(LARGE) - 100), 10_000)
    ranges = [(start, start + start % 90) for start in starts]
    targets, memories = targets_of(ranges)
    made.store.submit_read_into("large", targets).result()
    assert_filled(ranges, memories, LARGE)


@pytest.mark.parametrize("size_known", [False, True])
def test_a_target_beyond_the_end_is_an_error_and_nothing_is_written_beyond(made: Subject, size_known: bool) -> None:
    made.put("k", CONTENT)
    for ranges in ([(10, 20), (4990, 5001)], [(5000, 5001)], [(9000, 9009), (0, 3)]):
        targets, memories = targets_of(ranges)
        size_bytes = len(CONTENT) if size_known else None
        with pytest.raises(TruncatedError, match=r"target \d asks for the bytes \[\d+, \d+\), and the object has 5000"):
            made.store.submit_read_into("k", targets, size_bytes=size_bytes, gap_bytes=0).result()
        for (start, _), memory in zip(ranges, memories, strict=True):
            inside = max(0, len(CONTENT) - start)
            assert memory[:7] == b"\xee" * 7
            assert memory[7 + inside :] == b"\xee" * (len(memory) - 7 - inside)


def test_a_pinned_version_and_a_known_size_are_those_or_an_error(made: Subject) -> None:
    first = made.put("k", CONTENT)
    second = made.put("k", CONTENT + b"!")
    targets, _ = targets_of([(0, 5), (4000, 4500)])
    assert made.store.submit_read_into("k", targets, version=second.version).result().version == second.version
    with pytest.raises(ObjectChangedError):
        made.store.submit_read_into("k", targets, version=first.version).result()
    with pytest.raises(ObjectChangedError, match="size 5000"):
        made.store.submit_read_into("k", targets, size_bytes=5000).result()
    with pytest.raises(ObjectChangedError):
        made.store.submit_read_into("k", [], version=first.version).result()


def test_a_missing_object_has_nothing_to_read(made: Subject) -> None:
    made.put("there", b"")
    for ranges in ([(0, 1)], []):
        targets, _ = targets_of(ranges)
        with pytest.raises(NotFoundError, match="ther"):
            made.store.submit_read_into("ther", targets).result()
    assert made.store.submit_read_into("there", [(0, memoryview(bytearray(0)))], size_bytes=0).result().size_bytes == 0


def test_wrong_targets_are_refused_at_once(made: Subject) -> None:
    good = (0, memoryview(bytearray(3)))
    for wrong, said in (
        ((0, memoryview(b"abc")), "target 1: .*read-only"),
        ((-1, memoryview(bytearray(3))), "target 1: start must be .* got -1"),
        ((0, memoryview(bytearray(8))[::2]), "target 1: .*contiguous"),
        ((0.5, memoryview(bytearray(3))), "target 1: start must be .* got 0.5"),
        ((0, None), "target 1: "),
    ):
        with pytest.raises(ConfigError, match=said):
            made.store.submit_read_into("k", [good, wrong])  # type: ignore[list-item]  # the mistake
    with pytest.raises(ConfigError, match="gap_bytes"):
        made.store.submit_read_into("k", [good], gap_bytes=-1)
    with pytest.raises(ConfigError, match="printable"):
        made.store.submit_read_into("k", [good], version="a\nb")


def test_what_fails_in_the_callers_function_fails_the_read(made: Subject) -> None:
    made.put("k", CONTENT)
    targets, _ = targets_of([(0, 5), (10, 20)])
    with pytest.raises(ZeroDivisionError):
        made.store.submit_read_into("k", targets, filled=lambda position: 1 // 0).result()
    assert made.store.read("k", stop=3).data == CONTENT[:3]
