"""What the testbed says of its own shaping, on a clock that the test moves."""

from __future__ import annotations

import logging

import pytest

from buckettestbed.network.health import Health, processor_seconds

_WINDOW_S = 2.001
"""A little more than what is judged at once, so that no rounding decides."""


class Machine:
    """A clock, processors and the health that reads them."""

    def __init__(self, *, busy_share: float | None = 0.2, own_share: float = 0.1) -> None:
        self.now_s = 50.0
        self.health = Health(
            clock=lambda: self.now_s,
            processors=lambda: None if busy_share is None else (2 * self.now_s * busy_share, 2 * self.now_s),
            own_s=lambda: self.now_s * own_share,
        )

    def first_bytes(self, late_s: float, *, count: int = 200, asked_s: float = 0.02) -> None:
        """Two seconds of them, and the first of the next window."""
        for _ in range(count):
            self.health.first_byte(asked_s, late_s)
            self.now_s += _WINDOW_S / count
        self.health.first_byte(asked_s, 0.0)

    def pieces(self, *, machine_s: float = 0.0, peer_s: float = 0.0, count: int = 200) -> None:
        """Two seconds of a transfer that loses these parts of each second."""
        for _ in range(count):
            self.health.piece(1 << 20, 2.0 / count, machine_s)
            self.health.behind(machine_s=machine_s * 2 / count, peer_s=peer_s * 2 / count)
            self.now_s += _WINDOW_S / count
        self.health.piece(1, 0.0, 0.0)


def test_late_first_bytes_are_said_with_what_was_asked_and_achieved(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.first_bytes(0.002)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    told = record.getMessage()
    assert "asked for after 20.00 ms and came after 22.00 ms (means of 200)" in told
    assert "20% busy" in told and "took 0.10 processors" in told
    found = machine.health.snapshot()
    assert (found["first_bytes"], found["late_first_bytes"], found["warnings"]) == (201, 200, 1)
    assert found["first_byte_asked_s"] == pytest.approx(0.02)
    assert found["first_byte_late_s"] == pytest.approx(0.002 * 200 / 201)
    assert found["worst_late_s"] == 0.002


@pytest.mark.parametrize(("late_s", "count"), [(0.0009, 200), (0.5, 9), (-0.00003, 200)])
def test_what_is_within_the_tolerance_or_too_little_to_judge_is_not_said(
    caplog: pytest.LogCaptureFixture, late_s: float, count: int
) -> None:
    machine = Machine()
    machine.first_bytes(late_s, count=count)
    assert not caplog.records
    assert machine.health.snapshot()["first_byte_late_s"] == pytest.approx(max(0.0, late_s) * count / (count + 1))


def test_it_is_said_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    for _ in range(6):  # Twelve seconds, a warning every five at most.
        machine.first_bytes(0.01)
    assert len(caplog.records) == 2


def test_transfers_that_the_machine_keeps_behind_are_said(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.pieces(machine_s=0.25)
    (record,) = caplog.records
    assert "took 2.50 s, that is 100 MiB/s where 125 were asked for" in record.getMessage()
    found = machine.health.snapshot()
    assert found["behind_machine_share"] == pytest.approx(0.2)
    assert found["behind_peer_share"] == 0.0
    assert found["sent_bytes"] == 200 * (1 << 20) + 1


def test_a_single_answer_that_is_late_counts_with_its_body(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.pieces()
    machine.health.first_byte(0.02, 0.2)
    for _ in range(20):
        machine.health.piece(1 << 20, 0.01, 0.0)
        machine.now_s += 0.01
    assert machine.health.snapshot()["warnings"] == 1
    assert "were to take 0.22 s and took 0.42 s" in caplog.text


@pytest.mark.parametrize(
    ("busy_share", "own_share", "warnings"), [(0.5, 0.3, 0), (None, 0.3, 0), (0.95, 0.3, 1), (0.6, 0.95, 1)]
)
def test_slow_peers_are_the_machine_only_where_it_is_busy(
    caplog: pytest.LogCaptureFixture, busy_share: float | None, own_share: float, warnings: int
) -> None:
    machine = Machine(busy_share=busy_share, own_share=own_share)
    machine.pieces(peer_s=0.5)
    assert len(caplog.records) == warnings
    assert machine.health.snapshot()["behind_peer_share"] == pytest.approx(1 / 3)


def test_a_window_that_is_not_over_is_judged_when_the_counts_are_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    for _ in range(30):
        machine.health.first_byte(0.02, 0.01)
        machine.now_s += 0.01
    assert not caplog.records
    assert machine.health.snapshot()["warnings"] == 1
    assert machine.health.snapshot()["first_bytes"] == 30


def test_a_reset_starts_the_counts_again() -> None:
    machine = Machine()
    machine.first_bytes(0.002)
    machine.health.reset()
    assert set(machine.health.snapshot().values()) == {0}


def test_the_kernel_tells_how_busy_it_is() -> None:
    first, second = processor_seconds(), processor_seconds()
    if first is None or second is None:
        pytest.skip("this system has no /proc/stat")
    assert 0 < first[0] < first[1]
    assert first[0] <= second[0]
    assert first[1] <= second[1]


def test_what_was_lost_counts_in_windows_where_the_model_was_not_kept_alone() -> None:
    machine = Machine()
    machine.first_bytes(0.0001)
    kept = machine.health.snapshot()
    assert (kept["asked_s"], kept["lost_s"]) == (pytest.approx(4.0, abs=0.1), 0.0)
    machine.first_bytes(0.01)
    machine.first_bytes(0.01)
    found = machine.health.snapshot()
    assert found["asked_s"] == pytest.approx(12.0, abs=0.1)
    assert found["lost_s"] == pytest.approx(4.0, abs=0.1), "also where no warning was due yet"
    machine.health.reset()
    assert machine.health.snapshot()["lost_s"] == 0.0
