"""The network model's values, presets, and the arithmetic of its service clock, on a clock that the test moves."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import yaml

from buckettestbed.network.deadlines import Handle
from buckettestbed.network.health import Health
from buckettestbed.network.latency import FirstByte
from buckettestbed.network.model import NetworkModel, NetworkModelError
from buckettestbed.network.shaping import CATCH_UP_S, ServiceClock, Transfer
from buckettestbed.presets import load_network, preset_names

MIB = 1 << 20


class FakeTime:
    """A clock and its deadlines; `run` moves from one deadline to the next, late by `lateness_s` each time."""

    def __init__(self, lateness_s: float = 0.0) -> None:
        self.now_s = 100.0
        self.lateness_s = lateness_s
        self.health = Health(clock=lambda: self.now_s, processors=lambda: None)
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
    transfer = Transfer(clock, size, time.health)
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
    transfer = Transfer(clock, None, time.health)
    transfer.begin()
    time.run(110.0)  # Ten seconds in which nothing was sent: 1,000 bytes' worth.
    transfer.call_when_due(100, lambda: due.append(time.now_s))
    time.run()
    assert due == [pytest.approx(111.0 - CATCH_UP_S)]


def test_what_is_lost_is_put_down_to_whom_it_was_lost_by() -> None:
    time = FakeTime(lateness_s=0.2)
    clock = time.clock(100, None)
    transfer = Transfer(clock, 300, time.health)
    transfer.begin()

    def after_the_first() -> None:
        time.lateness_s = 0.0
        time.now_s += 0.3  # The reader is not ready.
        transfer.call_when_due(200, lambda: None)

    transfer.call_when_due(100, after_the_first)
    time.run()
    found = time.health.snapshot()
    # Due at 101.0 s, sent at 101.2, ready at 101.5: half a second behind, of which 50 ms can be made up for.
    assert found["sent_bytes"] == 300
    assert found["behind_machine_share"] == pytest.approx(0.2 / 3.45)
    assert found["behind_peer_share"] == pytest.approx(0.25 / 3.45)
    assert found["worst_late_s"] == pytest.approx(0.2)


@pytest.mark.parametrize("connections", [1, 16, 256])
def test_pieces_are_so_large_that_not_too_many_are_due(connections: int) -> None:
    time = FakeTime()
    clock = time.clock(None, 1000 * MIB)
    transfers = [send(time, clock, 10 * MIB, MIB, []) for _ in range(connections)]
    assert clock.rate_bytes_per_s / transfers[0].piece_bytes * connections <= 4000
    assert 16 << 10 <= transfers[0].piece_bytes <= MIB


@pytest.mark.parametrize(
    "tail", [{}, {"tail_probability": 0.02, "tail_first_byte_s": 0.2}, {"tail_probability": 1, "tail_first_byte_s": 1}]
)
@pytest.mark.parametrize(
    "body", [{}, {"first_byte_s": 0.02}, {"first_byte_distribution": "lognormal", "first_byte_sigma": 0.5}]
)
def test_draws_have_the_stated_mean_and_quantiles(body: dict[str, object], tail: dict[str, object]) -> None:
    fields: dict[str, object] = {"seed": 7, **({"first_byte_s": 0.02} if body else {}), **body, **tail}
    first, second = (FirstByte(NetworkModel.from_mapping(fields)) for _ in range(2))
    drawn = [first.draw_s() for _ in range(40_001)]
    assert drawn == [second.draw_s() for _ in range(40_001)]
    assert statistics.mean(drawn) == pytest.approx(first.mean_s, rel=0.05)
    drawn.sort()
    for share in (0.01, 0.5, 0.9, 0.97, 0.999):
        at_most = first.quantile_s(share)
        assert at_most in (pytest.approx(drawn[round(share * 40_000)], rel=0.1), pytest.approx(0.0))
        if first.quantile_s(0.999) != first.quantile_s(0.001):
            continue
        assert at_most == drawn[0] == drawn[-1]


@pytest.mark.parametrize("share", [0, 1, -0.5, 2])
def test_a_quantile_needs_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="expected a share between 0 and 1"):
        FirstByte(NetworkModel()).quantile_s(share)


def test_a_tail_of_no_probability_changes_no_draw() -> None:
    fields: dict[str, object] = {"first_byte_s": 1, "first_byte_distribution": "lognormal", "first_byte_sigma": 0.5}
    without = FirstByte(NetworkModel.from_mapping(fields))
    unused = FirstByte(NetworkModel.from_mapping({**fields, "tail_first_byte_s": 5}))
    assert [without.draw_s() for _ in range(100)] == [unused.draw_s() for _ in range(100)]


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
        ({"tail_probability": 1.5}, "tail_probability is 1.5"),
        ({"tail_first_byte_s": 61}, "tail_first_byte_s is 61"),
        (
            {"first_byte_s": 0.5, "tail_probability": 0.1, "tail_first_byte_s": 0.2},
            "tail_first_byte_s is 0.2, less than first_byte_s, 0.5",
        ),
        ({"reads_per_s": 0}, "reads_per_s is 0"),
        ({"writes_per_s": "many"}, "writes_per_s is 'many'"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"latency": 1}, "unknown field latency; the fields are"),
    ],
)
def test_a_wrong_value_is_refused_by_name(fields: dict[str, object], told: str) -> None:
    with pytest.raises(NetworkModelError, match="^" + told):
        NetworkModel.from_mapping(fields)


def test_every_preset_is_a_model_with_all_fields_commented() -> None:
    assert {"none", "lan", "regional", "cross_region", "throttled"} <= set(preset_names("network"))
    for name in preset_names("network"):
        path = Path(__file__).parents[3] / "conf" / "network" / f"{name}.yaml"
        text = path.read_text(encoding="utf-8")
        assert set(yaml.safe_load(text)) == set(NetworkModel().to_mapping())
        assert load_network(name) == load_network(str(path))
        for line in text.splitlines():
            assert "#" in line, f"{path}: {line!r} has no comment"
    assert load_network("none").off
    regional = load_network("regional")
    assert regional == NetworkModel(  # Published figures were measured with it.
        first_byte_s=0.02,
        tail_first_byte_s=0.2,
        connection_bytes_per_s=100 * MIB,
        total_bytes_per_s=800 * MIB,
    )
    assert load_network("throttled") == replace(regional, reads_per_s=550, writes_per_s=350)


def test_a_model_can_be_written_in_line() -> None:
    assert load_network("{first_byte_s: 0.5}") == NetworkModel(first_byte_s=0.5)


@pytest.mark.parametrize("text", ["nowhere", "no/such/file.yaml", "{first_byte_s: [", "{first_byte_s: -1}", "{1: 2}"])
def test_what_is_no_model_is_refused(text: str) -> None:
    with pytest.raises(NetworkModelError):
        load_network(text)
