"""How long something had been waiting when a busy loop noticed it."""

from __future__ import annotations

import pytest

from torchbucket.store.transport.rounds import Rounds


def test_what_ends_a_sleep_came_then() -> None:
    rounds = Rounds()
    rounds.note(0.0, 0.5)
    rounds.note(1.0, 2.0)
    assert rounds.came_s(2.003) == 2.0


def test_what_a_busy_loop_finds_ready_may_have_come_since_it_last_looked() -> None:
    rounds = Rounds()
    rounds.note(1.0, 2.0)
    rounds.note(2.06, 2.06)  # 60 ms went into what the round before had found.
    rounds.note(2.10, 2.10)
    assert rounds.came_s(2.0601) == 2.0
    assert rounds.came_s(2.15) == 2.06
    assert rounds.came_s(2.05) == 2.0
    assert rounds.came_s(2.096) == 2.06  # libcurl's moment may be a little too early.


def test_the_first_round_and_what_is_older_than_all_that_is_remembered() -> None:
    rounds = Rounds()
    assert rounds.came_s(0.1) == 0.1
    rounds.note(0.2, 0.2)
    assert rounds.came_s(0.3) == 0.2
    for number in range(5000):
        rounds.note(number, number + 0.5)
    assert rounds.came_s(0.4) == 0.4
    assert rounds.came_s(4999.6) == pytest.approx(4999.5)
    assert len(rounds._woken_s) <= 2048
