"""What is asked for ahead, in which order it is handed out, and what is left when a reader stops."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_store import ScriptedStore

from torchbucket import ConfigError, IterableDataset, MapDataset, NotFoundError, TransportError, TruncatedError
from torchbucket.datasets import Listing
from torchbucket.datasets.prefetch import PrefetchBudget, open_readers
from torchbucket.datasets.source import ObjectSource
from torchbucket.uri import ObjectURI

TEN = {f"k{index}": bytes([index]) * 10 for index in range(10)}


def test_a_batch_is_asked_for_at_once(scripted):
    store = scripted(TEN)
    dataset = MapDataset.from_prefix("memory://scripted/")
    assert dataset.__getitems__([4, 2, 2, -1]) == [TEN["k4"], TEN["k2"], TEN["k2"], TEN["k9"]]
    assert store.waits[0] == ["k4", "k2", "k2", "k9"]
    assert [request.size_bytes for request in store.requests] == [10] * 4


def test_a_wrong_index_is_found_before_anything_is_read(scripted):
    store = scripted(TEN)
    dataset = MapDataset.from_prefix("memory://scripted/")
    for index in (10, -11):
        with pytest.raises(IndexError, match=f"index {index} .* 10 objects"):
            dataset.__getitems__([0, index])
    with pytest.raises(TypeError):
        dataset[1.5]
    assert store.requests == []


def test_a_batch_beyond_the_budget_is_read_piece_by_piece(scripted):
    store = scripted(TEN)
    dataset = MapDataset.from_prefix("memory://scripted/", prefetch_bytes=35)
    assert dataset.__getitems__(range(10)) == list(TEN.values())
    assert max(map(len, store.waits)) == 3


def test_a_stream_stays_within_its_bytes_and_its_count(scripted):
    store = scripted(TEN)
    assert list(IterableDataset.from_prefix("memory://scripted/", prefetch_bytes=49)) == list(TEN.values())
    assert max(map(len, store.waits)) == 4
    store = scripted(TEN)
    assert list(IterableDataset.from_prefix("memory://scripted/", prefetch_objects=2)) == list(TEN.values())
    assert max(map(len, store.waits)) == 2


def test_an_object_larger_than_the_budget_is_read_alone(scripted):
    bodies = {"a": b"x" * 5, "b": b"y" * 100, "c": b"z" * 5, "d": b"w" * 5}
    store = scripted(bodies)
    assert list(IterableDataset.from_prefix("memory://scripted/", prefetch_bytes=20)) == list(bodies.values())
    assert store.waits == [["a"], ["b"], ["c", "d"], ["d"]]


@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=40),
    budget=st.integers(1, 150),
    count=st.integers(1, 9),
    data=st.data(),
)
def test_any_sizes_come_in_order_and_within_the_bounds(sizes, budget, count, data):
    bodies = {f"{index:02}": bytes([index]) * size for index, size in enumerate(sizes)}
    store = ScriptedStore(bodies)
    listing = Listing.collect((key, len(body)) for key, body in bodies.items())
    source = ObjectSource(ObjectURI(scheme="memory", bucket="scripted"), None, listing, store=store)
    positions = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=40))
    readers = open_readers(source, positions, fetch="whole", budget=PrefetchBudget(bytes=budget, objects=count))
    keys = list(bodies)
    assert [reader.read() for reader in readers] == [bodies[keys[position]] for position in positions]
    for waiting in store.waits:
        assert len(waiting) <= count
        assert len(waiting) == 1 or sum(len(bodies[key]) for key in waiting) <= budget
    # Nothing was asked for twice, and no wait was for less than the bounds allow.
    assert [request.key for request in store.requests] == [keys[position] for position in positions]
    for index, waiting in enumerate(store.waits):
        following = positions[index + len(waiting) : index + len(waiting) + 1]
        wanted_bytes = sum(len(bodies[key]) for key in [*waiting, *(keys[position] for position in following)])
        assert not following or len(waiting) == count or wanted_bytes > budget


def test_objects_of_unknown_size_count_as_the_largest_read_so_far(scripted):
    store = scripted({f"k{index}": b"x" * 100 for index in range(30)})
    dataset = IterableDataset.from_objects([f"memory://scripted/k{index}" for index in range(30)], prefetch_bytes=320)
    assert len(list(dataset)) == 30
    assert len(store.waits[0]) == 16  # nothing is known yet: a sixteenth of the budget each
    assert len(store.waits[-10]) == 3  # 100 bytes each


def test_more_is_asked_for_before_the_transform_runs(scripted):
    store = scripted(TEN)
    at_transform = []

    def transform(reader):
        at_transform.append(store.outstanding())
        return reader.key

    assert list(IterableDataset.from_prefix("memory://scripted/", transform=transform, prefetch_objects=2)) == list(TEN)
    assert at_transform[0] == ["k1", "k2"]
    assert at_transform[-1] == []


def test_closing_a_stream_drops_what_is_left(scripted):
    store = scripted(TEN)
    stream = iter(IterableDataset.from_prefix("memory://scripted/"))
    assert next(stream) == TEN["k0"]
    assert store.outstanding() == list(TEN)[1:]
    stream.close()
    assert store.outstanding() == []
    assert store.cancelled() == list(TEN)[1:]


def test_a_stream_not_begun_has_asked_for_nothing(scripted):
    store = scripted(TEN)
    stream = iter(IterableDataset.from_prefix("memory://scripted/"))
    assert store.requests == []
    stream.close()


def test_a_forked_child_does_not_cancel_its_parents_reads(scripted, monkeypatch):
    store = scripted(TEN)
    stream = iter(IterableDataset.from_prefix("memory://scripted/"))
    next(stream)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    stream.close()
    assert store.cancelled() == []


@pytest.mark.parametrize("kind", [MapDataset, IterableDataset])
def test_a_failed_read_drops_the_rest_and_names_the_object(scripted, kind):
    store = scripted(TEN)
    store.failures["k3"] = TransportError("the connection was reset")
    dataset = kind.from_prefix("memory://scripted/")
    seen = []
    with pytest.raises(TransportError) as caught:
        seen.extend(iter(dataset))
    assert seen == [TEN["k0"], TEN["k1"], TEN["k2"]]
    assert caught.value.__notes__ == ["while reading memory://scripted/k3"]
    assert store.outstanding() == []
    assert store.cancelled() == list(TEN)[4:]


def test_an_error_that_names_its_object_gets_no_second_name(scripted):
    store = scripted(TEN)
    store.failures["k3"] = NotFoundError("read memory://scripted/k3: gone", uri="memory://scripted/k3")
    with pytest.raises(NotFoundError) as caught:
        MapDataset.from_prefix("memory://scripted/")[3]
    assert not hasattr(caught.value, "__notes__")


def test_a_failed_batch_is_no_shorter_batch(scripted):
    store = scripted(TEN)
    store.failures["k9"] = TransportError("the connection was reset")
    dataset = MapDataset.from_prefix("memory://scripted/")
    with pytest.raises(TransportError):
        dataset.__getitems__([0, 9, 1])
    assert store.cancelled() == ["k1"]


@pytest.mark.parametrize("kind", [MapDataset, IterableDataset])
@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_an_exception_in_transform_keeps_its_type_and_names_the_object(scripted, kind, fetch):
    store = scripted(TEN)

    def transform(reader):
        if reader.key == "k1":
            raise KeyError("no label")
        return reader.key

    dataset = kind.from_prefix("memory://scripted/", transform=transform, fetch=fetch)
    with pytest.raises(KeyError) as caught:
        list(dataset)
    assert caught.value.__notes__ == ["while transforming memory://scripted/k1"]
    assert store.outstanding() == []


def test_stop_iteration_in_transform_does_not_end_the_epoch(scripted):
    scripted(TEN)

    def transform(reader):
        return next(iter(()))

    for dataset in (
        MapDataset.from_prefix("memory://scripted/", transform=transform),
        IterableDataset.from_prefix("memory://scripted/", transform=transform),
    ):
        with pytest.raises(RuntimeError, match="StopIteration for memory://scripted/k0"):
            list(dataset)
    with pytest.raises(RuntimeError, match="StopIteration"):
        MapDataset.from_prefix("memory://scripted/", transform=transform)[0]


def test_index_error_in_transform_does_not_end_a_loop_over_a_map(scripted):
    scripted(TEN)
    dataset = MapDataset.from_prefix("memory://scripted/", transform=lambda reader: [][0])
    with pytest.raises(IndexError, match="list index"):
        list(dataset)


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_store_that_answers_short_is_found_out(scripted, size):
    store = scripted({"k": b"x" * size})
    dataset = MapDataset.from_prefix("memory://scripted/")
    store.announced_bytes = size
    store.bodies["k"] = b"x" * (size - 1)
    with pytest.raises(TruncatedError, match=rf"memory://scripted/k: .* {size} bytes from 0 with {size - 1} bytes"):
        dataset[0]


def test_a_whole_object_is_the_bytes_that_the_store_gave(scripted):
    body = bytes(range(256)) * 8192
    store = scripted({"k": body})
    assert MapDataset.from_prefix("memory://scripted/")[0] is body
    assert store.requests[0].into_bytes is None


def test_lazy_reads_ask_for_nothing_until_they_are_used(scripted):
    store = scripted(TEN)
    dataset = MapDataset.from_prefix("memory://scripted/", transform=lambda reader: reader.size_bytes, fetch="lazy")
    assert dataset.__getitems__([1, 2]) == [10, 10]
    assert store.requests == []
    assert store.heads == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"prefetch_bytes": 0}, "prefetch_bytes must be at least 1; got 0"),
        ({"prefetch_objects": 0}, "prefetch_objects must be at least 1; got 0"),
        ({"fetch": "eager"}, "fetch must be 'whole' or 'lazy', or Compose.*; got 'eager'"),
        ({"rank": 1}, "rank and world_size go together; got rank=1, world_size=None"),
        ({"rank": 2, "world_size": 2}, "0 <= rank < world_size; got rank=2, world_size=2"),
    ],
)
def test_a_wrong_setting_fails_at_construction(scripted, setting, message):
    scripted(TEN)
    with pytest.raises(ConfigError, match=message):
        IterableDataset.from_prefix("memory://scripted/", **setting)
