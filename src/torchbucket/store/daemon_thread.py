"""Threads for which an exit waits a little, though it does not depend on them, and what has them end."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

__all__ = ["DaemonThread", "call_at_exit"]

# How long an exit waits for threads that were told to end; one that is in a callback of the program's may never.
# Source: chosen; 2 s were too few for callbacks that use torch, on two processors with work for fourteen.
_PATIENCE_S: Final = 5.0


class DaemonThread(threading.Thread):
    """A thread that does not keep the interpreter from its exit, and is waited for there for some seconds.

    One that still runs while the interpreter is torn down is ended by unwinding whatever it is in, at its next step.
    Where that is compiled code, such as the destructor of a tensor whose memory it frees, C++ aborts the process.
    """

    def __init__(self, target: Callable[..., object], *, args: tuple[object, ...] = (), name: str) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)

    def start(self) -> None:
        """Start it.

        Raises:
            RuntimeError: no thread can be started, since there are too many or the interpreter is being torn down.
        """
        if sys.is_finalizing():  # Python 3.11 would wait for ever for a thread that never runs; later ones raise this.
            raise RuntimeError("can't create new thread at interpreter shutdown")
        super().start()


def call_at_exit(function: Callable[[], object]) -> None:
    """Have a function called at the interpreter's exit, before its daemons are waited for: one that has them end.

    The last one given is called first, and what one raises does not keep the others from their turn.
    """
    _at_exit.callback(function)


def _join_all() -> None:
    stop_s = time.monotonic() + _PATIENCE_S
    for thread in threading.enumerate():
        if isinstance(thread, DaemonThread) and thread is not threading.current_thread():
            thread.join(max(0.0, stop_s - time.monotonic()))


# With all of the stores' ends behind one handler, those that the program registers once stores are imported come before
# it, and still have their stores.
_at_exit: Final = ExitStack()
_at_exit.callback(_join_all)
atexit.register(_at_exit.close)
