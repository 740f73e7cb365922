"""Threads for which an exit waits a little, though it does not depend on them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

__all__ = ["DaemonThread", "join_all"]


class DaemonThread(threading.Thread):
    """A thread that does not keep the interpreter from its exit, and is waited for there as long as ``join_all`` says.

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


def join_all(timeout_s: float) -> None:
    """Wait until all such threads of this process have ended, for so long at most altogether."""
    stop_s = time.monotonic() + timeout_s
    for thread in threading.enumerate():
        if isinstance(thread, DaemonThread) and thread is not threading.current_thread():
            thread.join(max(0.0, stop_s - time.monotonic()))
