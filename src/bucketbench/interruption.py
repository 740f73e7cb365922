"""What ends a sweep before its time: Ctrl-C, SIGTERM, and SIGHUP where its terminal is closed.

The first of them raises ``KeyboardInterrupt`` wherever the program is. While it then ends what it has started and
writes the results, a second one only cuts short what can be done later. A third ends the program where it stands.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from bucketbench.progress import say

__all__ = ["can_be_cut_short", "ended_by_signals"]

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_LAST: Final = 3


class _Interruption:
    """The handler of the signals; it counts them."""

    def __init__(self) -> None:
        self._received = 0
        self.may_be_cut_short = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._received += 1
        if self._received == 1 or self._received >= _LAST or self.may_be_cut_short:
            raise KeyboardInterrupt
        say("ending already, and writing the results; once more ends at once and may leave something behind")


_handling: list[_Interruption] = []
"""The handler that is installed, if any: a process has one set of signals."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A block that the signals end by ``KeyboardInterrupt``, once.

    A signal that was ignored before stays so: that is how ``nohup`` and a shell's ``&`` keep a program running. Without
    effect within another such block, and outside the main thread, which alone handles signals.
    """
    if _handling or threading.current_thread() is not threading.main_thread():
        yield
        return
    interruption = _Interruption()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    replaced = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    _handling.append(interruption)
    try:
        for number in replaced:
            signal.signal(number, interruption)
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        _handling.clear()


@contextmanager
def can_be_cut_short() -> Iterator[None]:
    """A block of work that a second signal ends as well, since it can be done at any later time."""
    if not _handling:
        yield
        return
    interruption = _handling[0]
    interruption.may_be_cut_short = True
    try:
        yield
    finally:
        interruption.may_be_cut_short = False
