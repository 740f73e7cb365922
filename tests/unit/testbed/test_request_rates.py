"""Request rates against a plain token bucket, in exact arithmetic, and what is remembered of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.network.rates import RequestRates


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def rates(
    clock: Clock, *, reads: float | None = None, writes: float | None = None, burst_s: float = 1.0
) -> RequestRates:
    return RequestRates(reads_per_s=reads, writes_per_s=writes, burst_s=burst_s, clock=clock)


class TokenBucket:
    """The textbook's, with fractions."""

    def __init__(self, rate: int, burst_s: Fraction) -> None:
        self.rate, self.most = Fraction(rate), max(Fraction(1), burst_s * rate)
        self.tokens, self.at = self.most, Fraction(0)

    def admit(self, at: Fraction) -> bool:
        self.tokens = min(self.most, self.tokens + (at - self.at) * self.rate)
        self.at = at
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


# Steps of 1/64 s and rates that are powers of two: floating-point times are exact, so both must agree to the request.
@given(
    rate=st.sampled_from([1, 2, 4, 8, 64, 512]),
    burst=st.sampled_from([Fraction(1, 64), Fraction(1, 4), Fraction(1), Fraction(3)]),
    steps=st.lists(st.integers(0, 100), max_size=300),
)
def test_requests_are_admitted_as_by_a_token_bucket(rate: int, burst: Fraction, steps: list[int]) -> None:
    clock, model = Clock(), TokenBucket(rate, burst)
    tried = rates(clock, reads=rate, burst_s=float(burst))
    at = Fraction(0)
    for step in steps:
        at += Fraction(step, 64)
        clock.now_s = 1000.0 + float(at)
        assert tried.admit("data", "a/key", writes=False) == model.admit(at)


@given(rate=st.floats(1, 5500), gaps=st.lists(st.floats(0, 2), min_size=1, max_size=200))
def test_who_asks_no_faster_than_the_rate_is_never_refused(rate: float, gaps: list[float]) -> None:
    clock = Clock()
    tried = rates(clock, reads=rate)
    for gap in gaps:
        clock.now_s += max(gap, 1 / rate)
        assert tried.admit("data", "key", writes=False)


@given(rate=st.floats(1, 600), gaps=st.lists(st.floats(0, 0.1), min_size=1, max_size=300))
def test_no_time_sees_more_than_the_rate_and_one_burst(rate: float, gaps: list[float]) -> None:
    clock, admitted = Clock(), []
    tried = rates(clock, writes=rate)
    for gap in gaps:
        clock.now_s += gap
        if tried.admit("data", "key", writes=True):
            admitted.append(clock.now_s)
    for first, begun_s in enumerate(admitted):
        for last, ended_s in enumerate(admitted[first:], start=first):
            assert last - first + 1 <= max(1.0, rate) + (ended_s - begun_s) * rate + 1e-6


def test_prefixes_buckets_and_writes_are_counted_apart() -> None:
    clock = Clock()
    tried = rates(clock, reads=1, writes=1)
    for _ in range(2):
        answers = [
            tried.admit("data", "a/1", writes=False),
            tried.admit("data", "b/1", writes=False),
            tried.admit("data", "1", writes=False),
            tried.admit("other", "a/1", writes=False),
            tried.admit("data", "a/1", writes=True),
        ]
        assert len(set(answers)) == 1  # All at first, then none: not even of another key of the prefix.
    assert not tried.admit("data", "a/2", writes=False)
    assert tried.admit("data", "a/b/2", writes=False)


@pytest.mark.parametrize("writes", [False, True])
def test_no_rate_is_no_limit(writes: bool) -> None:
    tried = rates(Clock(), reads=None if not writes else 1, writes=None if writes else 1)
    assert all(tried.admit("data", "key", writes=writes) for _ in range(10_000))
    assert tried.remembered == 0


def test_idle_prefixes_are_forgotten_and_busy_ones_are_not() -> None:
    clock = Clock()
    tried = rates(clock, reads=1)
    assert tried.admit("data", "busy/key", writes=False)
    for number in range(50_000):
        clock.now_s += 1 / 100  # Each is full again after a second, in which 100 others come.
        assert tried.admit("data", f"{number}/key", writes=False)
        busy = tried.admit("data", "busy/key", writes=False)
        assert busy == (number % 100 == 99)
        assert tried.remembered <= 1024
