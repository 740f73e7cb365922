"""The names of each shape, and what a listing of them is found to lack."""

from __future__ import annotations

import json

import pytest

from bucketbench.clients.protocol import Target
from bucketbench.job.description import Component
from bucketbench.scenarios.listing.job import ListingJob
from bucketbench.scenarios.listing.names import SHAPES, NamesSpec
from bucketbench.scenarios.listing.tally import NamesTally


def keys(shape: str, count: int) -> list[str]:
    return [key for key, _ in NamesSpec(count=count, shape=shape, max_size_bytes=0).objects("")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 10, 5000])
def test_names_are_as_many_as_asked_for_and_each_once(shape: str, count: int) -> None:
    found = keys(shape, count)
    assert len(set(found)) == len(found) == count
    assert max(len(key.encode()) for key in found) < 300
    assert not any(segment in ("", ".", "..") for key in found for segment in key.split("/"))
    assert found == keys(shape, count), "the same in any process"


def test_shapes_are_what_they_are_called() -> None:
    assert sum(key.startswith("hot/") for key in keys("hot", 1000)) == 990
    long = keys("long", 1000)
    assert {key[:200] for key in long} == {long[0][:200]}
    nested = set(keys("nested", 1000))
    assert all(key[:-1] in nested for key in nested - {"a"})
    assert {len(character.encode()) for key in keys("unicode", 100) for character in key} == {1, 2, 3, 4}
    numbers = keys("numbers", 101)
    assert numbers == sorted(numbers)
    assert {len(key) for key in numbers} == {3}
    assert keys("dates", 61)[-1] == "2000/01/01/01/part-00000"


def test_sizes_go_through_all_up_to_the_largest() -> None:
    sizes = [size for _, size in NamesSpec(count=9, shape="numbers", max_size_bytes=4).objects("p/")]
    assert sizes == [1, 2, 3, 4, 1, 2, 3, 4, 1]


def test_a_job_survives_its_file() -> None:
    job = ListingJob(
        client=Component(name="mine", target="a.b.C", requires=("x",)),
        target=Target(scheme="gs", bucket="b", prefix="p/"), min_measured_s=1.0, admin_url=None,
        names=NamesSpec(count=3, shape="hot", max_size_bytes=1), passes=None, warmup_prefix="w/",
    )  # fmt: skip
    from dataclasses import asdict

    assert ListingJob.from_json(json.loads(json.dumps(asdict(job)))) == job


OBJECTS = [("p/a", 1), ("p/b", 2), ("p/c", 3)]


def tally_of(*listings: list[tuple[object, object]]) -> tuple[NamesTally, list[tuple[int, int]]]:
    tally = NamesTally(OBJECTS)
    closed = []
    for listing in listings:
        assert tally.take(iter(listing)) == len(listing)
        closed.append(tally.close_pass())
    return tally, closed


def test_a_whole_listing_in_any_order_fails_nothing() -> None:
    tally, closed = tally_of(list(reversed(OBJECTS)), list(OBJECTS))
    counts = tally.counts()
    assert closed == [(3, 0), (3, 0)]
    assert (counts.checked, counts.failure) == (6, None)


@pytest.mark.parametrize(
    ("listing", "right_and_wrong", "words"),
    [
        (OBJECTS[:2], (2, 1), ["1 never arrived", "'p/c' was not listed"]),
        ([*OBJECTS, ("p/b", 2)], (3, 1), ["1 arrived more than once", "'p/b' was listed more than once"]),
        ([*OBJECTS, ("p/d", 2)], (3, 1), ["1 arrived with wrong content", "'p/d' was listed and is not there"]),
        ([*OBJECTS[:2], ("p/c", 4)], (2, 1), ["1 arrived with wrong content", "listed with 4 bytes and has 3"]),
        ([*OBJECTS[:2], ("p/c", None)], (2, 1), ["listed with None bytes and has 3"]),
        ([*OBJECTS[:2], ("p/" + "x" * 300, 4)], (2, 2), ["1 never arrived", "xxx...xxx"]),
        ([], (0, 3), ["3 never arrived", "'p/a' was not listed"]),
    ],
)
def test_what_is_wrong_is_counted_and_named(
    listing: list[tuple[object, object]], right_and_wrong: tuple[int, int], words: list[str]
) -> None:
    tally, closed = tally_of(listing)
    assert closed == [right_and_wrong]
    failure = tally.counts().failure
    assert failure is not None
    assert failure.startswith("of the names of the measured listings, ")
    for word in words:
        assert word in failure or any(word in note for note in tally.counts().notes)


def test_a_later_listing_begins_anew_and_earlier_faults_stay() -> None:
    tally, closed = tally_of(OBJECTS[:2], OBJECTS)
    assert closed == [(2, 1), (3, 0)]
    assert tally.counts().missing == 1


def test_few_notes_are_kept_of_many() -> None:
    tally, _ = tally_of([(f"p/{number}", 0) for number in range(1000)])
    assert len(tally.counts().notes) == 5
