"""Deadlines on a real event loop: the order of calls, never early, cancelled ones not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from bucketbench.testbed.network import deadlines as deadlines_module
from bucketbench.testbed.network.deadlines import Deadlines


@pytest.fixture(params=["best", "loop"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Deadlines]:
    if request.param == "loop":
        monkeypatch.setattr(deadlines_module, "_timer", deadlines_module._LoopTimer)
    return lambda: Deadlines(asyncio.get_running_loop())


def test_calls_are_made_in_order_and_never_early(make: Callable[[], Deadlines]) -> None:
    made: list[tuple[float, float]] = []

    async def run() -> None:
        waiting, start_s = make(), time.monotonic()
        for delay_s in (0.03, 0.001, 0.0, 0.01, 0.0101, 0.01):
            waiting.call_at(start_s + delay_s, lambda when_s: made.append((when_s, time.monotonic())))
        waiting.call_at(start_s + 0.005, lambda _: made.append((-1.0, 0.0))).cancel()
        await waiting.wait_until(start_s + 0.04)
        assert time.monotonic() >= start_s + 0.04
        waiting.close()

    asyncio.run(run())
    assert len(made) == 6
    assert [when_s for when_s, _ in made] == sorted(when_s for when_s, _ in made)
    assert all(at_s >= when_s for when_s, at_s in made)


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
