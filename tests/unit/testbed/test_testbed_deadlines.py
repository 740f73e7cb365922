"""Deadlines on a real event loop: the order of calls, hardly early, cancelled ones not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from buckettestbed.network import deadlines as deadlines_module
from buckettestbed.network.deadlines import EARLY_S, Deadlines


@pytest.fixture(params=["best", "loop"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Deadlines]:
    if request.param == "loop":
        monkeypatch.setattr(deadlines_module, "_timer", deadlines_module._LoopTimer)
    return lambda: Deadlines(asyncio.get_running_loop())


def test_calls_are_made_in_order_and_hardly_early(make: Callable[[], Deadlines]) -> None:
    made: list[tuple[float, float]] = []

    async def run() -> None:
        waiting, start_s = make(), time.monotonic()
        for delay_s in (0.03, 0.001, 0.0, 0.01, 0.0101, 0.01):
            waiting.call_at(start_s + delay_s, lambda when_s: made.append((when_s, time.monotonic())))
        waiting.call_at(start_s + 0.005, lambda _: made.append((-1.0, 0.0))).cancel()
        await waiting.wait_until(start_s + 0.04)
        assert time.monotonic() >= start_s + 0.04 - EARLY_S
        waiting.close()

    asyncio.run(run())
    assert len(made) == 6
    assert [when_s for when_s, _ in made] == sorted(when_s for when_s, _ in made)
    assert all(at_s >= when_s - EARLY_S for when_s, at_s in made)


def test_a_call_may_ask_for_an_earlier_one(make: Callable[[], Deadlines]) -> None:
    made: list[str] = []

    async def run() -> None:
        waiting, start_s = make(), time.monotonic()

        def first(_: float) -> None:
            made.append("first")
            waiting.call_at(start_s, lambda _: made.append("second"))

        waiting.call_at(start_s + 0.02, lambda _: made.append("third"))
        waiting.call_at(start_s, first)
        await waiting.wait_until(start_s + 0.03)
        waiting.close()

    asyncio.run(run())
    assert made == ["first", "second", "third"]


def test_a_wait_that_is_cancelled_leaves_the_others(make: Callable[[], Deadlines]) -> None:
    async def run() -> None:
        waiting = make()
        task = asyncio.create_task(waiting.wait_until(time.monotonic() + 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await waiting.wait_until(time.monotonic() + 0.005)
        waiting.close()

    asyncio.run(run())


def test_many_wake_ups_never_lead_to_early_calls(make: Callable[[], Deadlines]) -> None:
    made: list[float] = []

    async def run() -> None:
        waiting = make()
        for _ in range(100):  # The timer learns to wake up earlier; calls must not follow it.
            when_s = time.monotonic() + 0.0007
            await waiting.wait_until(when_s)
            made.append(time.monotonic() - when_s)
        waiting.close()

    asyncio.run(run())
    assert min(made) >= -EARLY_S


def test_the_time_of_events_is_that_of_the_first_among_them(make: Callable[[], Deadlines]) -> None:
    async def run() -> None:
        waiting = make()
        first_s = waiting.event_s()
        time.sleep(0.002)  # What one request takes must not shorten the wait of the next one that came with it.
        assert waiting.event_s() == first_s <= time.monotonic() - 0.002
        await asyncio.sleep(0)
        assert waiting.event_s() > first_s
        waiting.close()

    asyncio.run(run())
