"""The compose strategy: what is joined, what is read instead, what is refused, and that nothing is left."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import thread as python_pools

import pytest

import torchbucket.datasets.compose.reading
import torchbucket.datasets.listed
import torchbucket.datasets.source
from torchbucket import (
    Compose,
    ConfigError,
    IterableDataset,
    MapDataset,
    ObjectChangedError,
    PermissionDeniedError,
    StoreConfig,
    StoreError,
    TransportError,
    UnsupportedError,
)
from torchbucket.datasets.compose.reading import group_positions
from torchbucket.datasets.temporaries.living import LivingTemporaries, NoMoreTemporariesError
from torchbucket.listing import Listing, Manifest
from torchbucket.listing.version_column import VersionColumn
from torchbucket.store import ObjectData, ObjectInfo, Read, open_store
from torchbucket.store.memory import MemoryStore
from torchbucket.store.temporary_names import temporary_key
from torchbucket.uri import ObjectURI

BODIES = {f"small/{number:03}": bytes([number]) * (number * 13 % 90) for number in range(100)}
TEMPORARIES = "torchbucket-temporaries/"


class Watched(MemoryStore):
    """A store in memory that notes what is composed, read and removed, and fails where it is told to."""

    def __init__(self, name: str) -> None:
        super().__init__(ObjectURI(scheme="memory", bucket=name), StoreConfig())
        self.composed: list[list[str]] = []
        self.reads: list[str] = []
        self.removed: list[str] = []
        self.most_at_once = 0
        self.before_compose: Callable[[], None] = lambda: None
        self.on_delete: Callable[[str], None] = lambda key: None

    def compose(self, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
        self.before_compose()
        self.composed.append([source.key for source in sources])
        made = super().compose(sources, target_key)
        self.most_at_once = max(self.most_at_once, len(left(self)))
        return made

    def submit_read(self, read: Read) -> Future[ObjectData]:
        self.reads.append(read.key)
        return super().submit_read(read)

    def delete(self, key: str, *, if_version: str | None = None) -> None:
        self.on_delete(key)
        self.removed.append(key)
        super().delete(key, if_version=if_version)


def left(store) -> list[str]:
    return [info.key for info in store.list(TEMPORARIES)]


@pytest.fixture
def store(request, monkeypatch) -> Watched:
    name = f"compose-{abs(hash(request.node.name))}"
    for key, body in BODIES.items():
        open_store(f"memory://{name}").write(key, body)
    watched = Watched(name)
    for module in (torchbucket.datasets.listed, torchbucket.datasets.source):
        monkeypatch.setattr(module, "shared_store", lambda uri, config: watched)
    monkeypatch.setattr(torchbucket.datasets.compose.reading, "open_store", lambda uri, config: watched)
    return watched


def stream(store: Watched, compose: Compose, **options) -> IterableDataset[bytes]:
    return IterableDataset.from_prefix(f"{store.uri}/small/", fetch=compose, **options)


def sizes_of(groups: list[list[str]]) -> list[int]:
    return [len(group) for group in sorted(groups)]


@pytest.mark.parametrize("kind", [IterableDataset, MapDataset])
def test_neighbours_are_joined_read_at_once_and_removed(store, kind):
    dataset = kind.from_prefix(
        f"{store.uri}/small/", fetch=Compose(maximum_objects=32), transform=lambda reader: (reader.key, reader.read())
    )
    assert list(dataset) == list(BODIES.items())
    assert sizes_of(store.composed) == [32, 32, 32, 4]
    assert sorted(sum(store.composed, [])) == list(BODIES)  # noqa: RUF017  # a few small lists
    assert all(key.startswith(TEMPORARIES) for key in store.reads)
    assert sorted(store.removed) == sorted(store.reads)
    assert left(store) == []


def test_a_batch_is_joined_in_its_own_order_and_split_by_size(store):
    dataset = MapDataset.from_prefix(f"{store.uri}/small/", fetch=Compose())
    keys = list(BODIES)
    batch = [70, 3, 3, 0, 99]
    assert dataset.__getitems__(batch) == [BODIES[keys[position]] for position in batch]
    assert store.composed == [[keys[position] for position in batch]]
    assert dataset[5] == BODIES[keys[5]]
    assert store.reads[-1] == keys[5]  # one object alone is read as it is
    assert left(store) == []


def test_groups_keep_to_both_bounds_and_large_objects_stay_alone():
    listing = Listing.collect(
        ((f"{index}", size) for index, size in enumerate([5, 5, 5, 30, 5, 0, 10, 10, 1])),
    )
    found = list(group_positions(pinned(listing), range(9), maximum_bytes=20, maximum_objects=3))
    assert found == [[0, 1, 2], [3], [4, 5, 6], [7, 8]]
    assert list(group_positions(listing, range(3), maximum_bytes=20, maximum_objects=3)) == [[0], [1], [2]]


def pinned(listing: Listing) -> Listing:
    return Listing(listing.keys, listing.sizes_bytes, VersionColumn.of(["1"] * len(listing)))


def test_the_budget_bounds_what_is_joined_ahead(store):
    total = sum(map(len, BODIES.values()))
    assert list(stream(store, Compose(maximum_objects=4), prefetch_bytes=total // 10)) == list(BODIES.values())
    assert store.most_at_once * 4 < 20
    store.composed.clear()
    assert list(stream(store, Compose(), prefetch_objects=10)) == list(BODIES.values())
    assert sizes_of(store.composed) == [10] * 10


def test_zero_bytes_switch_it_off(store):
    assert list(stream(store, Compose(maximum_bytes=0))) == list(BODIES.values())
    assert store.composed == []


def test_leaving_a_loop_and_failing_in_it_leave_nothing(store):
    for sample in stream(store, Compose(maximum_objects=4)):
        assert sample == BODIES["small/000"]
        assert left(store)
        break
    assert left(store) == []

    def transform(reader):
        if reader.key == "small/050":
            raise KeyError("no label")
        return reader.key

    with pytest.raises(KeyError):
        list(stream(store, Compose(maximum_objects=4), transform=transform))
    assert left(store) == []


def test_an_object_overwritten_since_the_listing_is_named_after_those_before_it(store):
    dataset = stream(store, Compose(maximum_objects=10))
    store.write("small/035", b"x" * len(BODIES["small/035"]))
    seen = []
    with pytest.raises(ObjectChangedError, match="small/035"):
        seen.extend(dataset)
    assert seen == list(BODIES.values())[:30]
    assert left(store) == []


def test_a_temporary_object_that_somebody_removed_is_done_without(store):
    gone = []

    def sweep() -> None:
        if store.composed and not gone:
            gone.extend(left(store))
            for key in gone:
                MemoryStore.delete(store, key)

    store.before_compose = sweep
    dataset = stream(store, Compose(maximum_objects=10, requests_in_flight=1), prefetch_objects=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(dataset) == list(BODIES.values())
    assert left(store) == []


def test_a_transfer_that_fails_ends_the_iteration_and_leaves_nothing(store):
    def fail() -> None:
        if len(store.composed) == 3:
            raise TransportError("the connection was reset")

    store.before_compose = fail
    with pytest.raises(TransportError):
        list(stream(store, Compose(maximum_objects=10)))
    assert left(store) == []


def test_permissions_that_are_missing_are_explained(store):
    def deny(key: str = "") -> None:
        raise PermissionDeniedError("compose: the credentials do not allow it", status=403, operation="compose_object")

    store.before_compose = deny
    with pytest.raises(
        PermissionDeniedError, match=r"needs permission to create and delete .* fetch='whole'"
    ) as caught:
        list(stream(store, Compose()))
    assert (caught.value.status, caught.value.operation) == (403, "compose_object")
    store.before_compose = lambda: None
    store.on_delete = deny
    with (
        pytest.warns(RuntimeWarning, match=r"\d+ temporary objects could not be removed, such as memory://.*sweep"),
        pytest.raises(PermissionDeniedError, match="needs permission to create and delete"),
    ):
        list(stream(store, Compose()))
    assert left(store)


def test_a_removal_that_fails_once_is_made_again_and_one_that_fails_for_good_is_warned_of(store):
    failed = []

    def fail_once(key: str) -> None:
        if key not in failed:
            failed.append(key)
            raise TransportError("the connection was reset")

    store.on_delete = fail_once
    assert list(stream(store, Compose())) == list(BODIES.values())
    assert left(store) == []

    def fail(key: str) -> None:
        raise StoreError("no")

    store.on_delete = fail
    with pytest.warns(RuntimeWarning, match="4 temporary objects could not be removed"):
        assert list(stream(store, Compose())) == list(BODIES.values())
    assert len(left(store)) == 4


def test_closing_waits_for_what_is_being_made(store):
    going_on, may_go_on = threading.Event(), threading.Event()

    def slow() -> None:
        if len(store.composed) == 2:
            going_on.set()
            may_go_on.wait()

    store.before_compose = slow
    samples = iter(stream(store, Compose(maximum_objects=10, requests_in_flight=1)))
    next(samples)
    assert going_on.wait(60)
    threading.Timer(0.2, may_go_on.set).start()
    samples.close()
    assert len(store.composed) == 3
    assert left(store) == []


def test_nothing_more_is_made_once_the_exit_has_begun(store, monkeypatch):
    temporaries = LivingTemporaries(lambda: store, store, "temporaries/")
    monkeypatch.setattr(python_pools, "_shutdown", True)  # pools still do the work that they have
    with pytest.raises(NoMoreTemporariesError), temporaries.making():
        pass
    assert temporaries.is_empty
    assert temporaries.close() == []


def test_what_cannot_be_composed_is_refused_at_construction(store, tmp_path):
    uri = f"{store.uri}/small/"
    with pytest.raises(ConfigError, match="takes a joined object apart by its parts' sizes"):
        MapDataset.from_objects([f"{uri}000"], fetch=Compose())
    Manifest.from_prefix(uri, versions=False).write(str(tmp_path / "m.parquet"))
    with pytest.raises(ConfigError, match="a manifest with versions"):
        MapDataset.from_manifest(str(tmp_path / "m.parquet"), fetch=Compose())
    with pytest.raises(UnsupportedError, match=r"s3://bucket joins no objects .* fetch='whole'"):
        IterableDataset.from_objects(["s3://bucket/key"], fetch=Compose())


@pytest.mark.parametrize("prefix", ["", "torch", TEMPORARIES])
def test_a_data_set_may_lie_where_the_temporary_objects_are(store, prefix):
    for name in ("x1", "x2"):
        store.write(f"{prefix}{name}", name.encode())
    left_behind = temporary_key(f"{TEMPORARIES}0")
    store.write(left_behind, b"of a process that was killed")
    dataset = MapDataset.from_prefix(f"{store.uri}/{prefix}", select=lambda info: "x" in info.key, fetch=Compose())
    assert dataset.__getitems__(list(range(len(dataset)))) == [b"x1", b"x2"]
    assert left(store) == sorted([left_behind, *(f"{prefix}{name}" for name in ("x1", "x2") if prefix == TEMPORARIES)])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"maximum_bytes": -1}, "maximum_bytes must be a whole number from 0"),
        ({"maximum_bytes": True}, "maximum_bytes must be a whole number"),
        ({"maximum_objects": 1}, "maximum_objects must be a whole number from 2 to 1024; got 1"),
        ({"requests_in_flight": 0}, "requests_in_flight must be a whole number from 1 to 64; got 0"),
        ({"prefix": "a"}, "a text that ends with a slash, such as 'torchbucket-temporaries/'; got 'a'"),
        ({"prefix": ""}, "ends with a slash"),
        ({"prefix": "/"}, "ends with a slash"),
        ({"prefix": "x" * 900 + "/"}, "at most 800 bytes; got 901"),
    ],
)
def test_wrong_settings(setting, message):
    with pytest.raises(ConfigError, match=message):
        Compose(**setting)
