"""What is done for many paths at once: all of it where one fails, and no more of it after an interrupt."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest

from torchbucket.fsspec import transfers


def test_an_interrupt_does_not_wait_for_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = list[int](), threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        assert gate.wait(60)

    def interrupt(_: object) -> None:
        threading.Timer(0.1, gate.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(transfers, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        transfers._each(work, range(1000))
    assert len(begun) <= transfers._AT_ONCE


def test_a_failure_is_raised_once_all_others_are_done() -> None:
    work = Mock(side_effect=lambda number: 1 // number)
    with pytest.raises(ZeroDivisionError):
        transfers._each(work, range(100))
    assert work.call_count == 100
