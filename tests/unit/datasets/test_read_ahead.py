"""What a worker's queue tells of the batches to come, and what is read ahead of them."""

from __future__ import annotations

import queue
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, Subset

from torchbucket import ConfigError, MapDataset, NotFoundError, ReadAheadBatchSampler
from torchbucket.datasets.queued_batches import QueuedBatches

BODIES = {f"{number:02}": bytes([number]) * 10 for number in range(40)}


class FakeQueue:
    """A queue as torch makes them for its workers, of what a test puts in."""

    def __init__(self, items=()):
        self.items = deque(items)

    def get(self, block=True, timeout=None):
        if not self.items:
            raise queue.Empty
        return self.items.popleft()


def batches_of(*batches):
    return FakeQueue(enumerate(list(batch) for batch in batches))


@pytest.fixture
def in_worker(scripted, monkeypatch):
    """A map data set over a scripted store that takes the batches it is asked for out of a queue, as a worker does."""

    def install(index_queue, **options):
        store = scripted(BODIES)
        dataset = MapDataset.from_prefix("memory://scripted/", **options)
        queued = QueuedBatches(index_queue, dataset._position)
        monkeypatch.setattr(QueuedBatches, "of_this_process", classmethod(lambda *_: queued))
        return store, dataset

    return install


def keys(*positions):
    return [f"{position:02}" for position in positions]


@given(st.data())
def test_a_worker_gets_what_it_would_have_got_however_often_one_looks_ahead(data):
    items = data.draw(
        st.lists(
            st.one_of(
                st.none(),
                st.tuples(st.integers(), st.lists(st.integers(0, 9))),
                st.tuples(st.integers(), st.integers(0, 9)),
                st.tuples(st.integers(), st.tuples(st.lists(st.integers(0, 9)), st.booleans())),
                st.just("something else"),
            )
        )
    )
    index_queue = FakeQueue(items)
    queued = QueuedBatches(index_queue, lambda index: index)
    got = []
    while len(got) < len(items):
        for _ in range(data.draw(st.integers(0, 3))):
            queued.next_batch()
        got.append(index_queue.get(timeout=5.0))
    assert got == items
    with pytest.raises(queue.Empty):
        index_queue.get(timeout=5.0)


def test_batches_are_told_once_each_in_order_of_every_loader():
    index_queue = FakeQueue([(0, [3, 1]), (1, ([2, 0], False)), (2, 5), (3, ([4], True))])
    queued = QueuedBatches(index_queue, lambda index: index)
    assert [queued.next_batch() for _ in range(5)] == [[3, 1], [2, 0], [5], [4], None]
    assert index_queue.get() == (0, [3, 1])
    assert queued.next_batch() is None
    queued.tell_again()
    assert queued.next_batch() == [2, 0]


def test_nothing_is_told_beyond_what_is_no_batch():
    index_queue = FakeQueue([(0, [1]), None, (1, [2])])
    queued = QueuedBatches(index_queue, lambda index: index)
    assert [queued.next_batch() for _ in range(3)] == [[1], None, None]
    assert [index_queue.get(), index_queue.get()] == [(0, [1]), None]
    assert queued.next_batch() == [2]


def test_a_batch_that_will_fail_is_not_told():
    def position(index):
        raise IndexError(index)

    queued = QueuedBatches(batches_of([99], [1]), position)
    assert queued.next_batch() is None


def test_next_batches_are_on_their_way_while_samples_are_made(in_worker):
    index_queue = batches_of([0, 1], [5, 4], [7, 6])
    seen = []
    store, dataset = in_worker(index_queue, transform=lambda reader: seen.append((reader.key, store.outstanding())))
    _, first = index_queue.get()
    dataset.__getitems__(first)
    assert seen[0] == ("00", keys(1, 5, 4, 7, 6))
    _, second = index_queue.get()
    dataset.__getitems__(second)
    assert [request.key for request in store.requests] == keys(0, 1, 5, 4, 7, 6)  # each once


@given(data=st.data())
def test_each_index_gives_its_own_sample_whatever_was_foreseen(data):
    """Batches asked for, batches foreseen and failing transforms, in any combination."""
    indices = st.lists(st.integers(-40, 39), max_size=5)
    foreseen = data.draw(st.lists(indices, max_size=8))
    index_queue = batches_of(*foreseen)
    dataset = MapDataset.from_objects([f"memory://ahead-{id(index_queue)}/{key}" for key in BODIES])
    for key, body in BODIES.items():
        dataset._source.store.write(key, body)
    with pytest.MonkeyPatch.context() as patch:
        queued = QueuedBatches(index_queue, dataset._position)
        patch.setattr(QueuedBatches, "of_this_process", classmethod(lambda *_: queued))
        for _ in foreseen:
            _, batch = index_queue.get()
            if data.draw(st.booleans()):
                batch = data.draw(indices)
            if batch and data.draw(st.integers(0, 4)) == 0:
                with pytest.raises(ValueError, match="refused"):
                    refuse_one(dataset, batch, data.draw(st.integers(0, len(batch) - 1)))
                continue
            assert dataset.__getitems__(batch) == [bytes([index % 40]) * 10 for index in batch]


def refuse_one(dataset, batch, place):
    calls = iter(range(len(batch)))

    def transform(reader):
        if next(calls) == place:
            raise ValueError("refused")
        return reader.read()

    usual, dataset._transform = dataset._transform, transform
    try:
        dataset.__getitems__(batch)
    finally:
        dataset._transform = usual


def test_an_error_of_a_foreseen_read_comes_when_it_is_asked_for(in_worker):
    index_queue = batches_of([0], [1], [2])
    store, dataset = in_worker(index_queue)
    store.failures["01"] = NotFoundError("there is no such object")
    index_queue.get()
    assert dataset.__getitems__([0]) == [BODIES["00"]]
    index_queue.get()
    with pytest.raises(NotFoundError):
        dataset.__getitems__([1])
    index_queue.get()
    assert dataset.__getitems__([2]) == [BODIES["02"]]


def test_what_was_foreseen_in_vain_is_dropped(in_worker):
    index_queue = batches_of([0], [1, 2], [3])
    store, dataset = in_worker(index_queue)
    index_queue.get()
    dataset.__getitems__([0])
    index_queue.get()  # and nobody asks for its samples
    dataset.__getitems__(index_queue.get()[1])
    assert store.cancelled() == keys(1, 2, 3)


def test_samples_asked_for_besides_the_batches_leave_what_is_foreseen(in_worker):
    index_queue = batches_of([0, 1], [2, 3])
    store, dataset = in_worker(index_queue)
    dataset.__getitems__(index_queue.get()[1])
    assert dataset[30] == BODIES["30"]
    dataset.__getitems__(index_queue.get()[1])
    assert [request.key for request in store.requests] == keys(0, 1, 2, 3, 30)  # each once
    assert store.cancelled() == []


def test_a_foreseen_read_that_cannot_even_begin_fails_its_own_batch_only(in_worker, monkeypatch):
    index_queue = batches_of([0], [1], [2])
    _, dataset = in_worker(index_queue)
    begin = dataset._source.submit_read

    def submit_read(position):
        if position == 1:
            raise ConfigError("the server told no version")
        return begin(position)

    monkeypatch.setattr(dataset._source, "submit_read", submit_read)
    assert dataset.__getitems__(index_queue.get()[1]) == [BODIES["00"]]
    with pytest.raises(ConfigError, match="no version"):
        dataset.__getitems__(index_queue.get()[1])
    assert dataset.__getitems__(index_queue.get()[1]) == [BODIES["02"]]


def test_two_data_sets_in_one_worker_each_see_every_batch():
    index_queue = batches_of([0], [1], [2])
    first, second = (QueuedBatches(index_queue, lambda index: index) for _ in range(2))
    assert [first.next_batch(), first.next_batch(), second.next_batch()] == [[0], [1], [0]]
    assert index_queue.get() == (0, [0])
    assert first.is_loaders([0])
    assert second.is_loaders([0])
    assert [first.next_batch(), second.next_batch(), second.next_batch(), second.next_batch()] == [[2], [1], [2], None]
    assert [index_queue.get(), index_queue.get()] == [(1, [1]), (2, [2])]


def test_all_batches_together_stay_within_the_budget(in_worker):
    index_queue = batches_of([0, 1], [2, 3], [4, 5])
    store, dataset = in_worker(index_queue, prefetch_bytes=25)
    for _ in range(3):
        dataset.__getitems__(index_queue.get()[1])
    assert max(map(len, store.waits)) == 2  # 10 bytes each


def test_a_transform_may_read_other_samples_of_its_data_set(in_worker):
    def mixed(reader):
        own = reader.read()
        return own if reader.key >= "20" else own + dataset[int(reader.key) + 20]

    index_queue = batches_of([0, 1], [2])
    _, dataset = in_worker(index_queue, transform=mixed)
    for batch in ([0, 1], [2]):
        index_queue.get()
        assert dataset.__getitems__(batch) == [BODIES[f"{n:02}"] + BODIES[f"{n + 20}"] for n in batch]


class Outer(Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[len(self.inner) - 1 - index]


class Labelled(Dataset):
    """As many wrap a data set: the same indices, and something beside each sample."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitems__(self, indices):
        return list(zip(indices, self.inner.__getitems__(indices), strict=True))


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (lambda inner: inner, keys(4, 5, 6, 7)),
        (lambda inner: Subset(Subset(inner, range(20, 40)), range(10, 20)), keys(34, 35, 36, 37)),
        (Outer, []),
    ],
    ids=["itself", "subsets", "another data set"],
)
def test_a_real_worker_reads_ahead_of_the_data_sets_whose_indices_it_knows(scripted, around, expected):
    store = scripted(BODIES)
    # Waiting lets the second batch arrive whenever the system runs the loader; what is asserted is of the last sample.
    waited = threading.Event()
    dataset = MapDataset.from_prefix(
        "memory://scripted/", transform=lambda reader: (waited.wait(0.2), store.outstanding())[1]
    )
    loader = DataLoader(
        around(dataset), batch_size=4, num_workers=1, multiprocessing_context="fork", collate_fn=list, timeout=60
    )
    first = next(iter(loader))
    assert first[-1] == expected


def test_a_data_set_around_it_with_the_same_indices_is_read_ahead_from_its_second_batch(scripted):
    store = scripted(BODIES)
    waited = threading.Event()
    dataset = MapDataset.from_prefix(
        "memory://scripted/", transform=lambda reader: (waited.wait(0.2), store.outstanding())[1]
    )
    loader = DataLoader(
        Labelled(dataset), batch_size=4, num_workers=1, multiprocessing_context="fork", collate_fn=list, timeout=60
    )
    batches = iter(loader)
    first, second = next(batches), next(batches)
    assert first[-1] == (3, [])
    assert second[-1] == (7, keys(8, 9, 10, 11))


def test_a_real_worker_reads_what_its_first_batch_announces_beyond_its_queue(scripted):
    store = scripted(BODIES)
    dataset = MapDataset.from_prefix("memory://scripted/", transform=lambda reader: store.outstanding())
    loader = DataLoader(
        dataset,
        batch_sampler=ReadAheadBatchSampler(range(24), 2, ahead=8),
        num_workers=2,
        prefetch_factor=1,  # so that nothing waits in the queue while a batch is read
        multiprocessing_context="fork",
        collate_fn=list,
        timeout=60,
    )
    first, second, *rest = loader
    assert first[-1] == keys(4, 5, 8, 9, 12, 13, 16, 17)
    assert second[-1] == keys(6, 7, 10, 11, 14, 15, 18, 19)
    assert rest[-1][-1] == []
