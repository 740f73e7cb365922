"""The one save that goes on in the background: who waits for it, and who hears of its failure."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from typing import Final

from torchbucket.public import public
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.store_future import StoreFuture, refuse_to_wait

__all__ = ["Background", "SaveFuture", "background"]

_log = logging.getLogger("torchbucket.checkpoint")


@public
class SaveFuture(StoreFuture[ObjectInfo]):
    """A save under way: ``result`` waits until the object is durable and describes it, or raises what made it fail.

    It cannot be cancelled. In a child that is forked meanwhile it fails: the parent's save goes on without the child.

    Args:
        uri: the object's address.
    """

    def __init__(self, uri: str) -> None:
        super().__init__()
        self.uri: Final = uri
        self.staged_s: float = 0.0
        """Seconds for which the call blocked: until the object was copied, the wait for an earlier save included."""
        self.durable_s: float | None = None
        """Seconds from the call until the object was durable; None as long as it is not."""
        self.asked = False
        """Whether anybody has taken the outcome."""
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> ObjectInfo:
        """Wait until the object is durable, and describe it.

        Raises:
            StoreError: the save failed; what the address held before is untouched.
            TimeoutError: it is not durable after so many seconds.
        """
        try:
            info = super().result(timeout)
        finally:
            self.asked = self.done()
            del self  # An error keeps the frames that it passes, which must not keep it in turn.
        return info

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the object is durable, and return what made the save fail, or None."""
        failure = super().exception(timeout)
        self.asked = True
        return failure


class Background:
    """Lets one save at a time go on in a thread of its own, which an interpreter that exits waits for.

    A failure that nobody has asked its future for is raised by the next save, and at the interpreter's exit.
    """

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget, in a forked child, the save that the parent has under way."""
        self._changed = threading.Condition()
        self._busy_with: SaveFuture | None = None
        self._failed: SaveFuture | None = None

    def wait_for(self, uri: str) -> None:
        """Wait for the end of a save to that address, which would replace what is saved now; raise what failed."""
        with self._changed:
            self._wait_until(lambda: self._busy_with is None or self._busy_with.uri != uri)
        self.raise_failure()

    def take(self, future: SaveFuture) -> None:
        """Wait until no save is under way and begin this one; ``start`` or ``drop`` must follow, after an error too.

        Raise what failed before.
        """
        with self._changed:
            self._wait_until(lambda: self._busy_with is None)
            self._busy_with = future
        self.raise_failure()

    def drop(self, future: SaveFuture) -> None:
        """End a save that was not started, where it had begun at all."""
        with self._changed:
            if self._busy_with is future:
                self._busy_with = None
                self._changed.notify_all()

    def start(self, future: SaveFuture, work: Callable[[], ObjectInfo]) -> None:
        """Have the save done by a thread."""

        def run() -> None:
            info, failure = None, None
            try:
                info = work()
            except BaseException as error:  # noqa: BLE001  # handed over by the future
                failure = error
                _log.error("the save to %s failed: %s", future.uri, error)
            with self._changed:
                self._busy_with = None
                self._failed = future if failure is not None else self._failed
                self._changed.notify_all()
            # Only now: a callback may save again.
            if failure is not None:
                future.set_exception(failure)
            elif info is not None:
                future.set_result(info)

        # Not a daemon: the interpreter waits for it before anything is torn down.
        thread = threading.Thread(target=run, name="torchbucket-save", daemon=False)
        try:
            thread.start()
        except RuntimeError:  # no thread is left, or the interpreter is at its end
            self.drop(future)
            raise

    def _wait_until(self, done: Callable[[], bool]) -> None:
        if not done():
            refuse_to_wait("a save behind one that is under way in the background")
            self._changed.wait_for(done)

    def raise_failure(self) -> None:
        """Raise the failure of the last save, once, unless its future was asked."""
        with self._changed:
            failed, self._failed = self._failed, None
        if failed is None or failed.asked:
            return
        failure = failed.exception()
        if failure is not None:
            failure.add_note(f"It is the background save to {failed.uri} that failed; nobody had asked its future.")
            raise failure


background: Final = Background()
"""The process's."""

atexit.register(background.raise_failure)
