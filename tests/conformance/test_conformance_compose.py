"""Every store that joins objects does so in order, of the versions that were named, and leaves nothing else behind."""

from __future__ import annotations

import random

import pytest
from conformance_subjects import Subject

from torchbucket.errors import NotFoundError, ObjectChangedError, UnsupportedError
from torchbucket.store import ObjectInfo


@pytest.fixture
def joining(made: Subject) -> Subject:
    if not made.composes:
        info = made.put("k", b"content")
        with pytest.raises(UnsupportedError, match="target"):
            made.store.compose([info], "target")
        pytest.skip("it refuses, by name")
    return made


@pytest.mark.parametrize("count", [0, 1, 2, 32, 33, 70])
def test_sources_are_joined_in_their_order(joining: Subject, count: int) -> None:
    rng = random.Random(count)
    contents = [rng.randbytes(rng.randrange(40)) for _ in range(count)]
    infos = [joining.put(f"s/{number:03} ü", content) for number, content in enumerate(contents)]
    order = rng.sample(range(count), count)
    if count == 0 and not joining.writes:
        pytest.skip("an object of no bytes is written, and the server takes no writes")
    made = joining.store.compose([infos[number] for number in order], "s/target")
    expected = b"".join(contents[number] for number in order)
    assert (made.key, made.size_bytes) == ("s/target", len(expected))
    found = joining.store.read("s/target")
    assert bytes(found.data) == expected
    assert found.info.version == made.version
    assert sorted(info.key for info in joining.store.list()) == sorted([*(info.key for info in infos), "s/target"])


def test_one_object_may_come_several_times(joining: Subject) -> None:
    info = joining.put("k", b"ab")
    joining.store.compose([info] * 40, "k40")
    assert bytes(joining.store.read("k40").data) == b"ab" * 40


def test_a_target_may_be_its_own_source(joining: Subject) -> None:
    log, line = joining.put("log", b"one\n"), joining.put("line", b"two\n")
    joining.store.compose([log, line], "log")
    assert bytes(joining.store.read("log").data) == b"one\ntwo\n"


def test_sources_are_pinned(joining: Subject) -> None:
    if not joining.pins:
        pytest.skip("the server ignores the versions of sources")
    infos = [joining.put(f"s{number}", b"first") for number in range(40)]
    joining.put("s35", b"other")
    joining.put("target", b"kept")
    for sources in (infos, infos[33:36]):
        with pytest.raises(ObjectChangedError, match="version"):
            joining.store.compose(sources, "target")
    assert bytes(joining.store.read("target").data) == b"kept"
    assert len(list(joining.store.list())) == 41
    unpinned = [ObjectInfo(key=info.key, size_bytes=5) for info in infos[34:37]]
    joining.store.compose(unpinned, "target")
    assert bytes(joining.store.read("target").data) == b"firstotherfirst"


def test_a_missing_source(joining: Subject) -> None:
    if not joining.pins:
        pytest.skip("the server answers 500, as if it had failed itself")
    there = joining.put("there", b"x")
    with pytest.raises(NotFoundError):
        joining.store.compose([there, ObjectInfo(key="missing", size_bytes=1)], "target")
    assert [info.key for info in joining.store.list()] == ["there"]
