"""Signals that would end the process at once: something is done before they do."""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, Protocol

from torch.utils.data import get_worker_info

__all__ = ["EndingSignals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# Longer than what is done may take by its own limit. Source: `_LIMIT_S` of `living`.
_LIMIT_S: Final = 20.0


class _Ending(Protocol):
    def __call__(self, *, anew: bool) -> None: ...


class EndingSignals:
    """Calls a function before SIGTERM or SIGINT ends the process.

    A handler is installed only where the signal would end the process by itself. Where Python code handles it already,
    by an exception (as Ctrl-C does) or in its own way, it is left alone: what it does either unwinds the stack, so that
    everything is closed in the usual way, or goes on working. After the function the process ends by the signal, as it
    would have; a DataLoader's worker ends with status 0, as with torch's own handler, since its parent takes all else
    for a failure.

    The function runs on a thread of its own, because the signal may have interrupted code that holds locks.

    Only the main thread can install handlers: where the first iterator begins in another, none are.

    Args:
        function: called with ``anew=True``.
    """

    def __init__(self, function: _Ending) -> None:
        self._function = function
        self._installed: set[signal.Signals] = set()

    def install(self) -> None:
        """Put the handlers in, where they are needed and not in yet."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            if number in self._installed:
                continue
            present = signal.getsignal(number)
            # A handler of this class is the parent's, in a forked child. None is one that was not made in Python.
            inherited = isinstance(getattr(present, "__self__", None), EndingSignals)
            if present in (signal.SIG_DFL, None) or inherited or self._is_torchs(number):
                signal.signal(number, self._handle)
                self._installed.add(number)

    def restore(self) -> None:
        """Put back what was there, unless somebody has put in another one since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in list(self._installed):
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)
                if self._is_torchs(number):
                    _restore_torchs()
            self._installed.discard(number)

    @staticmethod
    def _is_torchs(number: signal.Signals) -> bool:
        """Whether torch's worker loop has a handler for the signal that Python does not see."""
        return number == signal.SIGTERM and get_worker_info() is not None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        done = _thread.allocate_lock()
        done.acquire()

        def run() -> None:
            try:
                self._function(anew=True)
            finally:
                done.release()

        # Not a threading.Thread: starting one waits, without a limit, for a lock that the signal may have interrupted.
        _thread.start_new_thread(run, ())
        done.acquire(timeout=_LIMIT_S)
        if self._is_torchs(signal.Signals(number)):
            os._exit(0)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _restore_torchs() -> None:
    import torch

    restore: Callable[[], None] | None = getattr(torch._C, "_set_worker_signal_handlers", None)
    if restore is not None:
        restore()
