"""The stream that lists while it reads: same samples and shares as the other one, and nothing waits for all names."""

from __future__ import annotations

import contextlib
import gc
import pickle
import uuid
import weakref
from concurrent.futures import Future

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import (
    Compose,
    ConfigError,
    IterableDataset,
    MapDataset,
    NotFoundError,
    ObjectChangedError,
    PrefixStream,
    StoreConfig,
)
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore
from torchbucket.store.protocol import ListedPage
from torchbucket.store.temporary_names import temporary_key

SMALL_PAGES = StoreConfig(list_page_size=7)


@pytest.fixture
def bucket() -> str:
    uri = f"memory://{uuid.uuid4().hex}"
    store = open_store(uri)
    for number in range(53):
        store.write(f"train/{number:03}", b"%d" % number)
    store.write("other", b"")
    return uri


def key_of(reader):
    return reader.key


def test_it_delivers_what_the_other_stream_does(bucket):
    open_store(bucket).write(temporary_key("train/x"), b"no sample")
    stream = PrefixStream.from_prefix(f"{bucket}/train/", config=SMALL_PAGES)
    assert list(stream) == list(stream) == list(IterableDataset.from_prefix(f"{bucket}/train/"))


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 60])
def test_ranks_get_the_shares_that_the_other_stream_deals(bucket, fetch, world_size):
    for rank in range(world_size):
        options = {"rank": rank, "world_size": world_size, "fetch": fetch, "transform": key_of}
        mine = list(PrefixStream.from_prefix(f"{bucket}/train/", config=SMALL_PAGES, **options))
        assert mine == list(IterableDataset.from_prefix(f"{bucket}/train/", **options))


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_samples_of_a_page_do_not_wait_for_the_next_page(bucket, monkeypatch, fetch, world_size):
    submit = MemoryStore.submit_list_page
    held: list[tuple[Future[ListedPage], str]] = []

    def submit_held(store, prefix="", *, start_after=""):
        if not start_after:
            return submit(store, prefix)
        held.append((Future(), start_after))
        return held[-1][0]

    monkeypatch.setattr(MemoryStore, "submit_list_page", submit_held)
    options = {"config": SMALL_PAGES, "rank": 0, "world_size": world_size, "fetch": fetch, "transform": key_of}
    samples = iter(PrefixStream.from_prefix(f"{bucket}/train/", **options))
    mine = [f"train/{number:03}" for number in range(0, 53, world_size)]
    first = [next(samples) for _ in range(len(range(0, 7, world_size)))]
    assert first == mine[: len(first)]
    ((following, start_after),) = held
    assert start_after == "train/006"
    monkeypatch.undo()
    following.set_result(submit(open_store(bucket, SMALL_PAGES), "train/", start_after=start_after).result())
    assert first + list(samples) == mine


@pytest.mark.parametrize("kind", [PrefixStream, MapDataset, IterableDataset])
def test_an_iteration_that_failed_does_not_end_as_if_it_were_whole(bucket, kind):
    def transform(reader):
        if reader.key.endswith("5"):
            raise ValueError("no sample")
        return reader.key

    samples = iter(kind.from_prefix(f"{bucket}/train/", transform=transform))
    assert [next(samples) for _ in range(5)][-1] == "train/004"
    with pytest.raises(ValueError, match="no sample"):
        next(samples)
    with pytest.raises(RuntimeError, match="this iteration failed before, with ValueError: no sample"):
        next(samples)


@pytest.mark.parametrize("kind", [PrefixStream, MapDataset, IterableDataset])
def test_an_iteration_that_failed_keeps_nothing_of_what_it_read(bucket, kind):
    readers = []

    def transform(reader):
        readers.append(weakref.ref(reader))
        raise ValueError("no sample")

    dataset = kind.from_prefix(f"{bucket}/train/", transform=transform)
    samples = iter(dataset)
    gc.collect()
    gc.disable()  # the collector comes late where objects are few and large
    try:
        with contextlib.suppress(ValueError):
            next(samples)
        assert readers[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_workers_get_each_object_once(bucket, workers):
    shares = [
        list(
            DataLoader(
                PrefixStream.from_prefix(f"{bucket}/train/", transform=key_of, rank=rank, world_size=2),
                batch_size=None,
                num_workers=workers,
                multiprocessing_context="fork" if workers else None,
            )
        )
        for rank in range(2)
    ]
    assert sorted(shares[0] + shares[1]) == [f"train/{number:03}" for number in range(53)]
    assert abs(len(shares[0]) - len(shares[1])) <= 1


def test_select_is_applied_before_objects_are_dealt_out(bucket):
    def even(info):
        return int(info.key[-3:]) % 2 == 0

    shares = [
        list(PrefixStream.from_prefix(f"{bucket}/train/", select=even, rank=rank, world_size=2)) for rank in range(2)
    ]
    assert [len(share) for share in shares] == [14, 13]
    assert sorted(shares[0] + shares[1], key=int) == [b"%d" % number for number in range(0, 53, 2)]


def test_nothing_under_the_prefix_is_an_error_unless_that_may_be(bucket):
    with pytest.raises(NotFoundError, match="no object's name begins with it"):
        list(PrefixStream.from_prefix(f"{bucket}/typo/"))
    with pytest.raises(NotFoundError, match="select kept none of the 53 objects"):
        list(PrefixStream.from_prefix(f"{bucket}/train/", select=lambda info: False))
    assert list(PrefixStream.from_prefix(f"{bucket}/typo/", allow_empty=True)) == []
    # A reader that is dealt nothing has no error: others have objects.
    assert list(PrefixStream.from_prefix(f"{bucket}/train/05", rank=7, world_size=8)) == []


@pytest.mark.parametrize("options", [{"shuffle": True}, {"even": True}, {"even": "drop"}, {"fetch": Compose()}])
def test_what_needs_the_whole_listing_is_refused(bucket, options):
    with pytest.raises(ConfigError, match=r"need the whole listing; use IterableDataset\.from_prefix"):
        PrefixStream.from_prefix(f"{bucket}/train/", **options)


def test_pinned_versions_are_those_of_the_listing(bucket):
    stream = PrefixStream.from_prefix(f"{bucket}/train/", pin_versions=True, fetch="lazy")
    samples = iter(stream)
    assert next(samples) == b"0"
    open_store(bucket).write("train/001", b"written since its page was listed")
    with pytest.raises(ObjectChangedError):
        next(samples)


def test_torchdatas_loader_resumes_it_by_reading_again(bucket):
    def loader() -> StatefulDataLoader[bytes]:
        return StatefulDataLoader(PrefixStream.from_prefix(f"{bucket}/train/"), batch_size=None, num_workers=0)

    first = loader()
    samples = iter(first)
    begun = [next(samples) for _ in range(20)]
    second = loader()
    second.load_state_dict(first.state_dict())
    assert begun + list(second) == [b"%d" % number for number in range(53)]


def test_a_pickle_holds_no_store(bucket):
    stream = PrefixStream.from_prefix(f"{bucket}/train/")
    assert len(list(stream)) == 53
    sent = pickle.dumps(stream)
    assert b"Store'" not in sent
    assert list(pickle.loads(sent)) == list(stream)
    assert repr(stream) == f"PrefixStream('{bucket}/train/')"


def test_a_layer_that_shares_out_to_the_ranks_is_given_everything(bucket, monkeypatch):
    shares = pytest.importorskip("accelerate.data_loader").IterableDatasetShard
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        stream = PrefixStream.from_prefix(f"{bucket}/train/", transform=key_of)
        assert len(list(stream)) in (26, 27)
        found += shares(stream, batch_size=4, num_processes=2, process_index=rank)
    assert sorted(set(found)) == [f"train/{number:03}" for number in range(53)]


def test_without_sharding_every_rank_reads_everything(bucket, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(list(PrefixStream.from_prefix(f"{bucket}/train/", sharding=False))) == 53
