"""The future of a call that is begun later than it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from torchbucket.store.store_future import StoreFuture

__all__ = ["Relay"]

T = TypeVar("T")


class Relay(StoreFuture[T]):
    """Takes over the outcome of the future that ``begin`` returns, once ``start`` is called.

    Cancelling drops a call that has not started, and cancels the inner future of one that has. Done only when the inner
    one is, so that memory given to a read is free then.

    Args:
        begin: makes the call.
        ended: called once, when the call is over or known not to be made.
    """

    def __init__(self, begin: Callable[[], Future[T]], ended: Callable[[Future[T] | None], None]) -> None:
        super().__init__()
        self._begin: Callable[[], Future[T]] | None = begin
        self._ended = ended
        self._begun: Future[T] | None = None
        self._unwanted = False

    def start(self) -> None:
        """Make the call, unless it was cancelled; from any thread, once."""
        begin, self._begin = self._begin, None
        assert begin is not None
        if not self.set_running_or_notify_cancel():
            self._ended(None)
            return
        try:
            begun = begin()
        except BaseException as error:  # noqa: BLE001  # the future's reader gets it, whichever thread this is
            self._ended(None)
            self.set_exception(error)
            return
        self._begun = begun
        if self._unwanted:
            begun.cancel()
        begun.add_done_callback(self._finish)

    def cancel(self) -> bool:
        """Give the call up; True where it is certain not to be made, or was not begun by the inner store either."""
        if super().cancel():
            return True
        self._unwanted = True
        begun = self._begun
        return begun is not None and begun.cancel()

    def _finish(self, done: Future[T]) -> None:
        self._begun = None
        self._ended(done)
        if done.cancelled():
            self.set_exception(CancelledError())
            return
        error = done.exception()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(done.result())
