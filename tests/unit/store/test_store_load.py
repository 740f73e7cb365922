"""What a store asks of a service that fails, refuses or is late, by a clock of the test's own."""

from __future__ import annotations

import math
import random
from collections import deque

import pytest

from torchbucket.store.transport.bandwidth import Bandwidth
from torchbucket.store.transport.hedging import HedgePolicy
from torchbucket.store.transport.pace import Pace
from torchbucket.store.transport.retry import RetryBudget


def test_retries_are_free_within_the_budget_and_wait_beyond_it() -> None:
    budget = RetryBudget(burst=5, earned=0.2, always_per_s=10)
    waits = [budget.take_s(0.0, 60.0) for _ in range(8)]
    assert waits[:5] == [0.0] * 5
    assert waits[5:] == pytest.approx([0.1, 0.2, 0.3])
    assert budget.take_s(10.0, 60.0) == 0.0  # Time pays, and no more than the burst is kept.
    assert [budget.take_s(10.0, 60.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0, 0.1])


def test_answers_earn_retries() -> None:
    budget = RetryBudget(burst=1, earned=0.25, always_per_s=0.001)
    budget.take_s(0.0, 1.0)
    for _ in range(4):
        budget.earn()
    assert budget.take_s(0.0, 1.0) == 0.0
    assert budget.take_s(0.0, 1.0) > 0.0


def test_an_outage_does_not_leave_a_debt_longer_than_the_longest_wait() -> None:
    budget = RetryBudget(burst=5, earned=0.2, always_per_s=10)
    assert max(budget.take_s(0.0, 2.0) for _ in range(10_000)) == 2.0
    assert budget.take_s(2.0, 2.0) <= 0.1


class Service:
    """Answers after 20 ms; refuses what is beyond ``limit_per_s``, after a burst, and by chance ``share`` of all."""

    def __init__(self, limit_per_s: float, share: float, burst: float = 100) -> None:
        self.limit_per_s, self.share = limit_per_s, share
        self.tokens = self.burst = burst
        self.filled_s = 0.0
        self.rng = random.Random(2)

    def refuses(self, now_s: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now_s - self.filled_s) * self.limit_per_s)
        self.filled_s = now_s
        if self.tokens < 1 or self.rng.random() < self.share:
            return True
        self.tokens -= 1
        return False


def driven(pace: Pace, service: Service, start_s: float, stop_s: float, in_flight: int = 64) -> tuple[float, float]:
    """Keep requests in flight for so long; return the accepted ones a second and the share refused."""
    now_s, step_s = start_s, 0.001
    answers: deque[tuple[float, bool]] = deque()
    accepted = refused = 0
    while now_s < stop_s:
        while answers and answers[0][0] <= now_s:
            refusal = answers.popleft()[1]
            pace.answered(now_s, refused=refusal)
            refused += refusal
            accepted += not refusal
        while len(answers) < in_flight and pace.wait_s(now_s) == 0:
            pace.begin(now_s)
            answers.append((now_s + 0.02, service.refuses(now_s)))
        now_s += step_s
    return accepted / (stop_s - start_s), refused / max(1, accepted + refused)


def test_without_refusals_there_is_no_limit() -> None:
    pace = Pace()
    rate, _ = driven(pace, Service(1e9, 0.0), 0, 3)
    assert rate == pytest.approx(3200, rel=0.1)
    assert not pace.strained


def test_a_refusal_now_and_then_limits_nothing() -> None:
    pace = Pace()
    rate, share = driven(pace, Service(1e9, 0.005), 0, 5)
    assert rate == pytest.approx(3200 * 0.995, rel=0.1)
    assert share == pytest.approx(0.005, abs=0.003)


def test_the_rate_settles_at_what_the_service_grants() -> None:
    pace, service = Pace(), Service(550, 0.0)
    driven(pace, service, 0, 2)
    rate, share = driven(pace, service, 2, 30)
    assert rate == pytest.approx(550, rel=0.05)
    assert share < 0.08  # Without the pace 83 % would be refused.


def test_a_consumer_that_asks_for_little_does_not_bring_the_limit_down_to_that() -> None:
    pace, service = Pace(), Service(1e9, 0.05)
    driven(pace, service, 0, 3)
    before_per_s = pace.rate_per_s
    driven(pace, service, 3, 8, in_flight=4)
    assert before_per_s is not None
    assert pace.rate_per_s is not None
    assert pace.rate_per_s > before_per_s / 2


def test_it_recovers_when_the_service_does() -> None:
    pace, service = Pace(), Service(550, 0.0)
    driven(pace, service, 0, 5)
    service.limit_per_s = 1e9
    driven(pace, service, 5, 40)
    rate, _ = driven(pace, service, 40, 45)
    assert rate == pytest.approx(3200, rel=0.1)
    assert not pace.strained


def test_refusals_by_chance_do_not_take_the_rate_down_for_ever() -> None:
    pace, service = Pace(), Service(1e9, 0.1)
    driven(pace, service, 0, 5)
    rate, share = driven(pace, service, 5, 40)
    assert rate > 1000
    assert share == pytest.approx(0.1, abs=0.02)


def test_an_outage_leaves_a_tenth_of_the_rate_and_recovers() -> None:
    pace, service = Pace(), Service(1e9, 0.0)
    driven(pace, service, 0, 2)
    service.share = 0.9
    driven(pace, service, 2, 4)
    service.share = 1.0
    driven(pace, service, 4, 14)
    assert pace.rate_per_s is not None
    assert pace.rate_per_s >= 5
    service.share = 0.0
    driven(pace, service, 14, 80)
    assert driven(pace, service, 80, 82)[0] == pytest.approx(3200, rel=0.1)


def test_late_is_told_by_what_was_seen_lately() -> None:
    policy = HedgePolicy(0.05)
    assert policy.late_after_s is None
    for _ in range(300):
        policy.learn(0.02)
    assert policy.late_after_s == pytest.approx(0.03)
    for _ in range(300):
        policy.learn(0.1)
    assert policy.late_after_s == pytest.approx(0.15)


def test_the_fewer_reads_are_known_the_later_is_late() -> None:
    policy = HedgePolicy(0.05)
    late_s = []
    for _ in range(20):
        policy.learn(0.02)
        late_s.append(policy.late_after_s)
    assert (late_s[0], late_s[3], late_s[-1]) == (pytest.approx(0.6), pytest.approx(0.15), pytest.approx(0.03, rel=0.2))
    assert late_s == sorted(late_s, key=lambda value: -(value or 0))


def test_one_slow_read_in_a_hundred_does_not_change_what_is_late() -> None:
    policy = HedgePolicy(0.05)
    for number in range(1000):
        policy.learn(1.0 if number % 100 == 7 else 0.02)
    assert policy.late_after_s == pytest.approx(0.03)


def test_a_very_fast_service_is_not_asked_twice_for_a_hiccup() -> None:
    policy = HedgePolicy(0.05)
    for _ in range(300):
        policy.learn(0.0004)
    assert policy.late_after_s == 0.025


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_second_requests_are_a_share_of_all(share: float) -> None:
    policy = HedgePolicy(share)
    taken = 0
    for _ in range(10_000):
        policy.learn(0.02)
        taken += policy.take()
    assert taken <= 8 + share * 10_000
    assert taken >= share * 10_000 - 1


def test_the_fewer_second_requests_are_left_the_later_a_read_must_be() -> None:
    policy = HedgePolicy(0.05)
    asked = []
    for _ in range(8):
        asked.append(policy.scarcity)
        policy.take()
    assert asked[0] == 1
    assert asked == sorted(asked)
    assert asked[-1] == 8
    assert policy.scarcity == math.inf


def test_patience_with_a_body_doubles() -> None:
    policy = HedgePolicy(0.05)
    assert [policy.stalled_after_s(attempt) for attempt in (1, 2, 3)] == [2.0, 4.0, 8.0]
    for _ in range(300):
        policy.learn(1.0)
    assert policy.stalled_after_s(1) == pytest.approx(12.0)


@pytest.mark.parametrize("piece", [1000, 16 << 10, 5 << 20])
def test_a_cap_holds_for_pieces_of_any_size(piece: int) -> None:
    now_s = 0.0
    bandwidth = Bandwidth(1 << 20, lambda: now_s)
    moved = 0
    while now_s < 100.0:
        if bandwidth.wait_s() > 0:
            now_s += bandwidth.wait_s() + 0.0005  # The loop wakes up a little late.
        else:
            bandwidth.spend(piece)
            moved += piece
    assert moved == pytest.approx((1 << 20) * now_s, rel=0.06)
