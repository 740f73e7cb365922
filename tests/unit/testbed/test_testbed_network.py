"""The network model's values, presets, and the arithmetic of its service clock, on a clock that the test moves."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import yaml

from bucketbench.testbed.network.deadlines import Deadlines, Handle
from bucketbench.testbed.network.model import NetworkModel, NetworkModelError
from bucketbench.testbed.network.presets import load_network, preset_names
from bucketbench.testbed.network.shaping import CATCH_UP_S, Network, ServiceClock, Transfer

MIB = 1 << 20


class FakeTime:
    """A clock and its deadlines; `run` moves from one deadline to the next, late by `lateness_s` each time."""

    def __init__(self, lateness_s: float = 0.0) -> None:
        self.now_s = 100.0
        self.lateness_s = lateness_s
        self._waiting: list[tuple[float, int, Handle]] = []
        self._order = count()

    def call_at(self, when_s: float, callback: Callable[[float], None]) -> Handle:
        handle = Handle(when_s, callback)
        heapq.heappush(self._waiting, (when_s, next(self._order), handle))
        return handle

    def run(self, until_s: float = float("inf")) -> None:
        while self._waiting and self._waiting[0][0] <= until_s:
            when_s, _, handle = heapq.heappop(self._waiting)
            if handle.callback is not None:
                self.now_s = max(self.now_s, when_s + self.lateness_s)
                handle.callback(when_s)
        self.now_s = max(self.now_s, min(until_s, 1e9)) if until_s != float("inf") else self.now_s

    def clock(self, each: float | None, total: float | None) -> ServiceClock:
        return ServiceClock(self, each_bytes_per_s=each, total_bytes_per_s=total, clock=lambda: self.now_s)


def send(time: FakeTime, clock: ServiceClock, size: int, piece: int, ended: list[float]) -> Transfer:
    """Starts a transfer in pieces; appends to `ended` the time its last byte was due."""
    transfer = Transfer(clock, size)
    transfer.begin()
    left = size

    def next_piece() -> None:
        nonlocal left
        if left == 0:
            ended.append(time.now_s)
            return
        now = min(piece, left)
        left -= now
        transfer.call_when_due(now, next_piece)

    next_piece()
    return transfer


@pytest.mark.parametrize("lateness_s", [0.0, 0.0009])
def test_late_timers_do_not_add_up(lateness_s: float) -> None:
    time, ended = FakeTime(lateness_s), []
    send(time, time.clock(100 * MIB, None), 100 * MIB, 256 << 10, ended)
    time.run()
    assert ended == [pytest.approx(101.0 + lateness_s, abs=1e-6)]


@pytest.mark.parametrize(("connections", "wanted_s"), [(1, 1.0), (8, 1.0), (16, 2.0), (256, 32.0)])
def test_the_total_is_shared_in_equal_parts(connections: int, wanted_s: float) -> None:
    time, ended = FakeTime(), []
    clock = time.clock(100 * MIB, 800 * MIB)
    for _ in range(connections):
        send(time, clock, 100 * MIB, MIB, ended)
    time.run()
    assert ended == [pytest.approx(100 + wanted_s, rel=1e-6)] * connections


def test_a_connection_that_joins_and_leaves_takes_only_its_part() -> None:
    # 100 bytes/s in all. A begins at 0 s with 150 bytes and has 100 at 1 s, when B joins with 50: both end at 2 s.
    time, ended = FakeTime(), []
    clock = time.clock(None, 100)
    send(time, clock, 150, 10, ended)
    time.run(101.0)
    send(time, clock, 50, 10, ended)
    time.run()
    assert ended == [pytest.approx(102.0), pytest.approx(102.0)]
    send(time, clock, 100, 10, ended)  # Both left: the third has the link for itself.
    time.run()
    assert ended[-1] == pytest.approx(103.0)


def test_a_cancelled_transfer_gives_its_part_back() -> None:
    time, ended = FakeTime(), []
    clock = time.clock(None, 100)
    cancelled = send(time, clock, 1000, 10, [])
    send(time, clock, 150, 10, ended)
    time.run(101.0)
    cancelled.end()
    cancelled.end()  # A second end changes nothing.
    time.run(102.05)
    assert ended == [pytest.approx(102.0)]


def test_a_transfer_that_fell_behind_catches_up_only_so_far() -> None:
    time, due = FakeTime(), []
    clock = time.clock(100, None)
    transfer = Transfer(clock, None)
    transfer.begin()
    time.run(110.0)  # Ten seconds in which nothing was sent: 1,000 bytes' worth.
    transfer.call_when_due(100, lambda: due.append(time.now_s))
    time.run()
    assert due == [pytest.approx(111.0 - CATCH_UP_S)]


def test_the_same_seed_gives_the_same_latencies() -> None:
    model = NetworkModel(first_byte_s=0.02, first_byte_distribution="lognormal", first_byte_sigma=0.5, seed=7)
    deadlines = _unused_deadlines()
    first, second = (Network(model, deadlines) for _ in range(2))
    drawn = [first.latency_s() for _ in range(4001)]
    assert drawn == [second.latency_s() for _ in range(4001)]
    assert statistics.median(drawn) == pytest.approx(0.02, rel=0.05)
    assert statistics.mean(drawn) == pytest.approx(0.02 * 2.718281828 ** (0.5**2 / 2), rel=0.05)


def _unused_deadlines() -> Deadlines:
    class NoLoop:
        def add_reader(self, *_: object) -> None: ...

        def call_later(self, *_: object) -> None: ...

    return Deadlines(NoLoop())  # type: ignore[arg-type]  # Latencies are drawn without waiting.


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"first_byte_s": -1}, "first_byte_s is -1"),
        ({"first_byte_s": float("nan")}, "first_byte_s is nan"),
        ({"first_byte_s": "20ms"}, "first_byte_s is '20ms'"),
        ({"first_byte_s": True}, "first_byte_s is True"),
        ({"connection_bytes_per_s": 0}, "connection_bytes_per_s is 0"),
        ({"total_bytes_per_s": float("inf")}, "total_bytes_per_s is inf"),
        ({"direction": "up"}, "direction is 'up'"),
        ({"first_byte_distribution": "normal"}, "first_byte_distribution is 'normal'"),
        ({"first_byte_sigma": 0.5}, "first_byte_sigma is 0.5, which first_byte_distribution=constant"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"latency": 1}, "unknown field latency; the fields are"),
    ],
)
def test_a_wrong_value_is_refused_by_name(fields: dict[str, object], told: str) -> None:
    with pytest.raises(NetworkModelError, match="^" + told):
        NetworkModel.from_mapping(fields)


def test_every_preset_is_a_model_with_all_fields_commented() -> None:
    assert {"none", "lan", "regional", "cross_region"} <= set(preset_names())
    for name in preset_names():
        path = Path(__file__).parents[3] / "conf" / "network" / f"{name}.yaml"
        text = path.read_text(encoding="utf-8")
        assert set(yaml.safe_load(text)) == set(NetworkModel().to_mapping())
        assert load_network(name) == load_network(str(path))
        for line in text.splitlines():
            assert "#" in line, f"{path}: {line!r} has no comment"
    assert load_network("none").off
    regional = load_network("regional")
    assert (regional.first_byte_s, regional.connection_bytes_per_s, regional.total_bytes_per_s) == (
        0.02,
        100 * MIB,
        800 * MIB,
    )


def test_a_model_can_be_written_in_line() -> None:
    assert load_network("{first_byte_s: 0.5}") == NetworkModel(first_byte_s=0.5)


@pytest.mark.parametrize("text", ["nowhere", "no/such/file.yaml", "{first_byte_s: [", "{first_byte_s: -1}", "{1: 2}"])
def test_what_is_no_model_is_refused(text: str) -> None:
    with pytest.raises(NetworkModelError):
        load_network(text)
