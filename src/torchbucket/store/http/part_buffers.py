"""The memory in which writers gather parts, bounded for all writers of a store together."""

from __future__ import annotations

import threading

from torchbucket.store.forking import renew_after_fork

__all__ = ["PartBuffers"]


class PartBuffers:
    """Lends buffers up to a budget; who asks for more waits until a part that is on its way has arrived.

    The budget is exceeded in one case, since waiting would never end: no part is on its way, because writers that are
    being filled hold all of the budget, or because one part alone is larger.

    Safe for use by several threads. A forked child starts with the whole budget: the parent's writers are not its.

    Args:
        budget_bytes: the bound on what is lent.
        usual_bytes: length of the buffers that are kept for another use while a writer is open. Fresh memory costs the
            kernel more time than libcurl needs to send it.
    """

    def __init__(self, budget_bytes: int, usual_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._usual_bytes = usual_bytes
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the parent's loans, in a forked child."""
        self._changed = threading.Condition()
        self._lent_bytes = 0
        self._sending = 0
        self._writers = 0
        self._spare: list[bytearray] = []

    def enter(self) -> None:
        """Count an open writer in."""
        with self._changed:
            self._writers += 1

    def leave(self) -> None:
        """Count a writer out; the last one lets the spare buffers go."""
        with self._changed:
            self._writers -= 1
            if not self._writers:
                self._spare.clear()

    def take(self, length: int) -> bytearray:
        """Lend a buffer of ``length`` bytes, waiting for one as long as parts are on their way."""
        with self._changed:
            while self._lent_bytes + length > self._budget_bytes and self._sending:
                self._changed.wait()
            self._lent_bytes += length
            if length == self._usual_bytes and self._spare:
                return self._spare.pop()
        return bytearray(length)

    def sending(self) -> None:
        """Note that a lent buffer is on its way and will come back without its writer's doing."""
        with self._changed:
            self._sending += 1

    def give_back(self, buffer: bytearray, *, sent: bool) -> None:
        """Take a buffer back; ``sent`` tells that ``sending`` was called for it."""
        with self._changed:
            self._lent_bytes -= len(buffer)
            self._sending -= sent
            if len(buffer) == self._usual_bytes and self._writers:
                self._spare.append(buffer)
            self._changed.notify_all()
