"""The batch sampler whose batches announce those after them: its batches, what they carry, its states."""

from __future__ import annotations

import pickle
import queue

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import ConfigError, MapDataset, ReadAheadBatchSampler, ShardedSampler
from torchbucket.datasets.queued_batches import AnnouncingBatch, QueuedBatches

BODIES = {f"{number:02}": bytes([number]) * 10 for number in range(40)}


def keys(*positions):
    return [f"{position:02}" for position in positions]


@given(count=st.integers(0, 20), size=st.integers(1, 6), drop_last=st.booleans(), ahead=st.integers(1, 8))
def test_its_batches_are_those_of_torch_and_carry_those_after_them(count, size, drop_last, ahead):
    batches = [*BatchSampler(range(count), size, drop_last)]
    announcing = ReadAheadBatchSampler(range(count), size, drop_last, ahead=ahead)
    assert len(announcing) == len(batches)
    for _ in range(2):
        passed = [pickle.loads(pickle.dumps(batch)) for batch in announcing]
        assert passed == batches
        for number, batch in enumerate(passed):
            assert batch.following == batches[number + 1 : number + 1 + ahead]


def test_a_batch_sampler_is_taken_as_it_is():
    batches = [[3, 1], [2], [0, 4, 5]]
    announcing = ReadAheadBatchSampler(batches)
    assert [*announcing] == batches
    assert len(announcing) == 3
    assert next(iter(announcing)).following == [[2], [0, 4, 5]]


def test_frameworks_find_the_sampler_of_torchs_batch_sampler():
    announcing = ReadAheadBatchSampler(BatchSampler(SequentialSampler(range(10)), 4, drop_last=True))
    assert isinstance(announcing.sampler, SequentialSampler)
    assert (announcing.batch_size, announcing.drop_last) == (4, True)
    announcing.sampler = [9, 8, 7, 6]  # as accelerate puts another in
    assert [*announcing] == [[9, 8, 7, 6]]


@pytest.mark.parametrize("ahead", [0, -1, True, 2.0, None])
def test_a_wrong_distance_is_refused(ahead):
    with pytest.raises(ConfigError, match="ahead must be"):
        ReadAheadBatchSampler(range(3), 2, ahead=ahead)


def test_a_sampler_of_indices_without_a_batch_size_is_refused():
    with pytest.raises(ConfigError, match="needs a batch_size"):
        next(iter(ReadAheadBatchSampler(range(3))))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_it_draws_no_more_than_it_announces(count):
    drawn = []
    announcing = iter(ReadAheadBatchSampler((drawn.append(index) or index for index in range(100)), 5, ahead=2))
    for _ in range(count):
        next(announcing)
    assert len(drawn) == (count + 2) * 5 * (count > 0)


def indices_of_epochs(loader, epochs):
    return [[batch.tolist() for batch in loader] for _ in range(epochs)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "sampler",
    [
        lambda: ShardedSampler(range(20), seed=3),
        lambda: RandomSampler(range(20), generator=torch.Generator().manual_seed(3)),
        lambda: [[0, 1, 2], [9, 8], [4]],
    ],
    ids=["with states", "without", "batches"],
)
@pytest.mark.parametrize("taken", [1, 4])
def test_a_stateful_loader_goes_on_at_the_exact_batch(sampler, workers, taken):
    def made():
        given = sampler()
        batches = ReadAheadBatchSampler(given, None if isinstance(given, list) else 3)
        return StatefulDataLoader(torch.arange(20), batch_sampler=batches, num_workers=workers)

    whole = indices_of_epochs(made(), 2)
    flat = [batch for epoch in whole for batch in epoch]
    loader, begun = made(), []
    while len(begun) < taken:
        for batch in loader:
            begun.append(batch.tolist())
            if len(begun) == taken:
                state = loader.state_dict()
                break
    resumed = made()
    resumed.load_state_dict(state)
    rest = [batch.tolist() for batch in resumed]
    assert begun == flat[:taken]
    assert rest == flat[taken : taken + len(rest)]
    assert rest


def test_a_loader_without_workers_reads_ahead(scripted):
    store = scripted(BODIES)
    dataset = MapDataset.from_prefix(
        "memory://scripted/", transform=lambda reader: (int(reader.read()[0]), store.outstanding())
    )
    batches = ReadAheadBatchSampler(range(8), 2, ahead=2)
    loader = DataLoader(dataset, batch_sampler=batches, collate_fn=list)
    for _ in range(2):
        seen = [*loader]
        assert [number for batch in seen for number, _ in batch] == [*range(8)]
        assert [batch[-1][1] for batch in seen] == [keys(2, 3, 4, 5), keys(4, 5, 6, 7), keys(6, 7), []]
    assert len(store.requests) == 16  # each once in an epoch
    assert dataset[0] == (0, [])
    assert [batch[-1][1] for batch in DataLoader(dataset, batch_size=4, collate_fn=list)] == [[]] * 10


def test_a_loader_without_workers_that_was_left_early_begins_anew(scripted):
    store = scripted(BODIES)
    dataset = MapDataset.from_prefix("memory://scripted/")
    loader = DataLoader(dataset, batch_sampler=ReadAheadBatchSampler(range(8), 2, ahead=2), collate_fn=list)
    next(iter(loader))
    assert [*loader] == [[bytes([first]) * 10, bytes([first + 1]) * 10] for first in range(0, 8, 2)]
    assert store.cancelled() == keys(2, 3, 4, 5)


class FakeQueue:
    def __init__(self, items):
        self.items = [*items]

    def get(self, block=True, timeout=None):
        if not self.items:
            raise queue.Empty
        return self.items.pop(0)


def told(index_queue, count):
    return [index_queue.next_batch() for _ in range(count)]


def test_what_waits_in_the_queue_announces_too():
    index_queue = FakeQueue([*enumerate(ReadAheadBatchSampler([[0], [1], [2], [3], [4]], ahead=2))][:2])
    queued = QueuedBatches(index_queue, lambda index: index)
    assert index_queue.get() == (0, [0])
    assert told(queued, 2) == [[1], [2]]
    assert len(index_queue.items) == 1  # as announced, so that there was no need to look
    assert index_queue.get() == (1, [1])
    assert told(queued, 2) == [[3], None]


def test_what_waits_in_the_queue_is_known_where_too_little_is_announced():
    batches = [[number] for number in range(6)]
    index_queue = FakeQueue(enumerate([AnnouncingBatch.of(batches[0], batches[1:2]), *batches[1:4]]))
    queued = QueuedBatches(index_queue, lambda index: index)
    index_queue.get()
    assert told(queued, 4) == [[1], [2], [3], None]


def test_announcements_that_come_out_wrong_are_not_believed_until_one_comes_true():
    announcing = [*ReadAheadBatchSampler([[number] for number in range(9)], ahead=3)]
    index_queue = FakeQueue([])
    queued = QueuedBatches(index_queue, lambda index: index)
    known = []
    for number in (0, 2, 4, 5, 6):  # another layer takes every second one, and then stops doing so
        index_queue.items.append((number, announcing[number]))
        index_queue.get()
        queued.tell_again()
        known.append(queued.next_batch())
    assert known == [[1], None, None, [6], [7]]


def test_a_worker_knows_what_the_first_batch_that_it_is_asked_for_announces():
    index_queue = FakeQueue([])
    queued = QueuedBatches(index_queue, lambda index: index)
    queued.hear(next(iter(ReadAheadBatchSampler([[0], [1], [2]]))))  # it left the queue before anyone watched that
    assert queued.is_loaders([0])
    assert told(queued, 3) == [[1], [2], None]
    index_queue.items.append((1, [1]))
    assert index_queue.get() == (1, [1])
    queued.hear(next(iter(ReadAheadBatchSampler([[7], [8]]))))  # not the loader's, which are known by now
    assert queued.is_loaders([1])
