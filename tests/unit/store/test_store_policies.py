"""Waiting, fairness and part sizes: the rules that need no server."""

from __future__ import annotations

import random
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import TransportError
from torchbucket.store.http.part_writer import part_size_bytes
from torchbucket.store.transport.fair_queue import FairQueue
from torchbucket.store.transport.operation import Again, Call
from torchbucket.store.transport.retry import Backoff, retry_after_s
from torchbucket.store.transport.retry_queue import Contact, RetryQueue

GIB, TIB = 1 << 30, 1 << 40


def test_waits_grow_with_full_jitter_up_to_the_bound() -> None:
    backoff = Backoff(RetryConfig(initial_s=0.1, multiplier=3.0, maximum_s=3.0), random.Random(4))
    for attempt in range(2, 40):
        waits = [backoff.delay_s(attempt) for _ in range(200)]
        bound = min(3.0, 0.1 * 3 ** (attempt - 2))
        assert 0 <= min(waits) < 0.1 * bound
        assert 0.9 * bound < max(waits) <= bound


@pytest.mark.parametrize(("refused", "bound"), [(False, 0.005), (True, 0.0125)])
def test_a_first_failure_is_tried_again_almost_at_once(refused: bool, bound: float) -> None:
    backoff = Backoff(RetryConfig(initial_s=0.1), random.Random(4))
    waits = [backoff.delay_s(1, refused=refused) for _ in range(200)]
    assert 0 <= min(waits) < 0.1 * bound
    assert 0.9 * bound < max(waits) <= bound


def test_the_server_may_ask_for_more_within_the_bound() -> None:
    backoff = Backoff(RetryConfig(initial_s=0.1, maximum_s=3.0), random.Random(4))
    assert all(1 <= backoff.delay_s(1, refused=True, asked_s=1.0) <= 1.1 for _ in range(50))
    assert backoff.delay_s(1, asked_s=3600.0) == 3.0


def test_no_wait_at_all() -> None:
    backoff = Backoff(RetryConfig(initial_s=0.0, maximum_s=0.0))
    assert [backoff.delay_s(attempt) for attempt in (1, 2, 99)] == [0.0] * 3


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("12", 12.0),
        ("-5", 0.0),
        ("soon", None),
        ("", None),
        (formatdate(1000.0, usegmt=True), 10.0),
        (formatdate(900.0, usegmt=True), 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, now_s=990.0) == seconds


def served(queue: FairQueue[tuple[int, int]]) -> list[tuple[int, int]]:
    items = []
    while (item := queue.pop()) is not None:
        items.append(item)
    assert not queue
    return items


@given(st.lists(st.integers(0, 8), max_size=8))
def test_the_queue_serves_calls_in_turn(sizes: list[int]) -> None:
    queue: FairQueue[tuple[int, int]] = FairQueue()
    everything = [(call, item) for call, size in enumerate(sizes) for item in range(size)]
    for call, size in enumerate(sizes):
        queue.add((call, item) for item in range(size))
    assert served(queue) == sorted(everything, key=lambda pair: (pair[1], pair[0]))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=8))
def test_a_caller_has_one_turn_however_often_it_calls(sizes: list[int]) -> None:
    queue: FairQueue[tuple[int, int]] = FairQueue()
    everything = [(caller, item) for caller, size in enumerate(sizes) for item in range(size)]
    for caller, item in everything:
        queue.add([(caller, item)], caller=caller)
    assert served(queue) == sorted(everything, key=lambda pair: (pair[1], pair[0]))
    queue.add([(0, 0)], caller=0)  # a caller whose items were all served begins anew
    assert served(queue) == [(0, 0)]


class GivenUp(Call[None]):
    """An operation that another thread gives up right after it was looked at."""

    looks = 0

    @property
    def dropped(self) -> bool:
        self.looks += 1
        return self.looks > 1

    @dropped.setter
    def dropped(self, value: bool) -> None:
        assert not value


def given_up(*, looked_at: bool) -> GivenUp:
    operation = GivenUp("get_object", "k", "s3://bucket/k", lambda: pytest.fail("built"), lambda _: None)
    assert not (looked_at and operation.dropped)
    return operation


def test_what_is_given_up_while_the_queue_is_searched_stays_or_is_found() -> None:
    queue: FairQueue[GivenUp] = FairQueue()
    operations = [given_up(looked_at=True), given_up(looked_at=False)]
    queue.add(operations, caller="reader")
    assert queue.take_out(lambda operation: operation.dropped) + list(queue) == operations


def test_what_is_given_up_while_retries_are_searched_stays_or_is_found() -> None:
    retries = RetryQueue(StoreConfig(), Contact())
    operations = [given_up(looked_at=True), given_up(looked_at=False)]
    for operation in operations:
        assert retries.add(operation, Again(TransportError("broken")), 0.0) is None
    assert retries.take_dropped() + list(retries) == operations


def test_a_retry_goes_first() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.add(["a", "b"], caller="writer")
    queue.add_first("again")
    assert list(queue) == ["again", "a", "b"]


@pytest.mark.parametrize("first", [5 * MIB, 8 * MIB, 64 * MIB, GIB, 5 * GIB])
def test_parts_grow_so_that_any_object_fits(first: int) -> None:
    sizes = [part_size_bytes(first, number, 5 * GIB) for number in range(1, 10_001)]
    assert sum(sizes) >= 5 * TIB
    assert sizes[0] == first
    assert max(sizes) <= 5 * GIB
    assert sizes == sorted(sizes)


def test_parts_of_the_default_size_stay_small_for_common_checkpoints() -> None:
    total = 0
    for number in range(1, 10_001):
        size = part_size_bytes(8 * MIB, number, 5 * GIB)
        if size >= 128 * MIB:
            break
        total += size
    assert total > 100 * GIB
