"""The clock of epochs: workers of one pass agree, whatever order they run in, and passes side by side keep apart."""

from __future__ import annotations

import multiprocessing
import pickle
from types import SimpleNamespace

import pytest

import torchbucket.datasets.epochs.clock
from torchbucket.datasets.epochs.clock import EpochClock


@pytest.fixture
def worker(monkeypatch):
    """Be a worker of a loader from now on: its number, how many there are, and the loader's seed."""

    def become(number: int, of: int, *, seed: int = 1000) -> None:
        info = SimpleNamespace(id=number, num_workers=of, seed=seed + number)
        monkeypatch.setattr(torchbucket.datasets.epochs.clock, "get_worker_info", lambda: info)

    return become


class Played:
    """A clock as each worker process has it: the memory in common, the count of its own passes not."""

    def __init__(self, clock: EpochClock) -> None:
        self.clock = clock

    def in_process(self) -> EpochClock:
        copy = EpochClock.__new__(EpochClock)
        copy.__setstate__({"block": self.clock._block})
        return copy


def test_a_worker_that_is_through_before_another_begins_leaves_it_its_epoch(worker):
    clock = EpochClock()
    first, second = Played(clock).in_process(), Played(clock).in_process()
    worker(0, 2)
    begun = first.begin()
    first.finish(begun)
    worker(1, 2)
    late = second.begin()
    assert (begun.epoch, late.epoch, clock.epoch) == (0, 0, 0)
    second.finish(late)
    assert clock.epoch == 1


def test_an_epoch_named_meanwhile_does_not_split_a_pass(worker):
    clock = EpochClock()
    first, second = Played(clock).in_process(), Played(clock).in_process()
    worker(0, 2)
    begun = first.begin()
    clock.set(5)
    worker(1, 2)
    late = second.begin()
    assert (begun.epoch, late.epoch) == (0, 0)
    first.finish(begun)
    second.finish(late)
    assert clock.epoch == 5


def test_passes_of_two_loaders_keep_apart(worker):
    clock = EpochClock()
    workers = {(seed, number): Played(clock).in_process() for seed in (1, 2) for number in (0, 1)}
    begun = {}
    for seed, number in ((1, 0), (2, 0), (1, 1)):
        worker(number, 2, seed=seed)
        begun[seed, number] = workers[seed, number].begin()
    for seed, number in ((1, 0), (1, 1)):
        worker(number, 2, seed=seed)
        workers[seed, number].finish(begun[seed, number])
    assert clock.epoch == 1
    worker(1, 2, seed=2)
    assert workers[2, 1].begin().epoch == 0


def test_persistent_workers_begin_the_next_pass_together(worker):
    clock = EpochClock()
    first, second = Played(clock).in_process(), Played(clock).in_process()
    for epoch in range(3):
        worker(0, 2)
        begun = first.begin()
        worker(1, 2)
        other = second.begin()
        assert (begun.epoch, other.epoch) == (epoch, epoch)
        second.finish(other)
        worker(0, 2)
        first.finish(begun)


def test_a_pass_without_one_worker_s_end_counts_for_nothing(worker):
    clock = EpochClock()
    worker(0, 2, seed=1)
    clock.finish(clock.begin())
    worker(0, 2, seed=2)
    assert Played(clock).in_process().begin().epoch == 0


def test_hundreds_of_passes_that_were_left_do_no_harm(worker):
    clock = EpochClock()
    worker(0, 2, seed=0)
    old = clock.begin()
    for seed in range(1, 600):
        worker(0, 2, seed=seed)
        clock.begin()
    clock.finish(old)
    worker(0, 1, seed=9999)
    clock.finish(clock.begin())
    assert clock.epoch == 1


def test_a_reader_counts_once(worker):
    clock = EpochClock()
    worker(0, 2)
    begun = clock.begin()
    clock.finish(begun)
    clock.finish(begun)
    assert clock.epoch == 0


def test_what_was_loaded_applies_until_its_epoch_is_over():
    clock = EpochClock()
    clock.resume(4)
    assert clock.begin().resuming
    clock.set(4)
    begun = clock.begin()
    assert (begun.epoch, begun.resuming) == (4, True)
    clock.finish(begun)
    assert (clock.epoch, clock.resuming) == (5, False)
    clock.set(4)
    assert not clock.begin().resuming


def test_processes_that_inherit_it_count_apart(monkeypatch):
    """Ranks that one process starts with its data set."""
    clock = EpochClock()
    clock.set(3)
    ranks = []
    for pid in (111, 222):
        monkeypatch.setattr(torchbucket.datasets.epochs.clock, "_owner_pid", lambda pid=pid: pid)
        rank = Played(clock).in_process()
        begun = rank.begin()
        ranks.append(begun.epoch)
        rank.finish(begun)
        assert rank.epoch == 4
    assert ranks == [3, 3]


def test_too_many_processes_are_told_so(monkeypatch):
    monkeypatch.setattr(torchbucket.datasets.epochs.clock, "_is_alive", lambda pid: True)
    clock = EpochClock()
    with pytest.raises(RuntimeError, match="construct it in each"):
        for pid in range(1, 300):
            monkeypatch.setattr(torchbucket.datasets.epochs.clock, "_owner_pid", lambda pid=pid: -pid)
            clock.set(0)


def test_a_copy_shows_the_same_and_counts_for_itself():
    clock = EpochClock()
    clock.resume(6)
    copy = pickle.loads(pickle.dumps(clock))
    assert (copy.epoch, copy.resuming) == (6, True)
    copy.set(9)
    assert clock.epoch == 6


def test_children_that_have_ended_leave_their_places_to_others(monkeypatch):
    monkeypatch.setattr(torchbucket.datasets.epochs.clock, "_OWNERS", 3)
    clock = EpochClock(7)
    context = multiprocessing.get_context("fork")

    def read_an_epoch() -> None:
        begun = clock.begin()
        clock.finish(begun)
        assert (begun.epoch, clock.epoch) == (7, 8)

    for _ in range(6):
        child = context.Process(target=read_an_epoch)
        child.start()
        child.join()
        assert child.exitcode == 0
    assert clock.epoch == 7
