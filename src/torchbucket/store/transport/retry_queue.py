"""The operations between two attempts: whether there is another one, and when."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Iterator
from typing import Any, Final

from torchbucket.config import StoreConfig
from torchbucket.errors import ThrottledError
from torchbucket.store.transport.operation import Again, Operation
from torchbucket.store.transport.retry import Backoff, RetryBudget

__all__ = ["Contact", "RetryQueue"]

_log = logging.getLogger("torchbucket.transport")

# Before any server of the store has ever answered, a request that finds none is tried so often: the address is more
# likely wrong than the network broken. Source: chosen; with the default waits about a second, more than a flickering
# name server needs, against the 20 s for which an outage of a known server is waited out.
_FIRST_ATTEMPTS: Final = 5


class Contact:
    """Whether a server of a store has ever answered; it outlives loops."""

    made = False


class RetryQueue:
    """Keeps the operations of one loop that failed in a way that another attempt may not, until that is due.

    Times are those of one monotonic clock, given by the caller. Not safe for use by several threads.

    Args:
        config: the settings of retries.
        contact: whether the server is known to be there.
    """

    def __init__(self, config: StoreConfig, contact: Contact) -> None:
        self._backoff = Backoff(config.retry)
        self._list_backoff = Backoff(config.list_retry) if config.list_retry is not None else self._backoff
        self._budget = RetryBudget()
        self.answered = self._budget.earn
        """Note a request that was answered well."""
        self._contact = contact
        self._waiting: list[tuple[float, int, Operation[Any]]] = []
        self._numbers = itertools.count()

    def begin(self, operation: Operation[Any], now_s: float) -> float:
        """Count an attempt that begins; return the seconds that the operation has left."""
        operation.attempts += 1
        if operation.deadline_s is None:
            operation.deadline_s = now_s + self._backoff_of(operation).config.deadline_s
        return operation.deadline_s - now_s

    def is_last_attempt(self, operation: Operation[Any]) -> bool:
        """Whether a failure of the attempt that is under way would be the operation's."""
        return operation.attempts >= self._backoff_of(operation).config.max_attempts

    def add(self, operation: Operation[Any], again: Again, now_s: float) -> str | None:
        """Keep an operation until its next attempt; where there is none, return why."""
        backoff = self._backoff_of(operation)
        attempts, config = operation.attempts, backoff.config
        if self.is_last_attempt(operation):
            return f"gave up after {attempts} attempts"
        if again.unreachable and not self._contact.made and attempts >= _FIRST_ATTEMPTS:
            return f"gave up after {attempts} attempts: no server has ever answered"
        refused = isinstance(again.error, ThrottledError)
        delay_s = backoff.delay_s(attempts, refused=refused, asked_s=again.after_s)
        if not refused:  # Those are bounded by the pace of all requests.
            delay_s = max(delay_s, self._budget.take_s(now_s, config.maximum_s))
        if operation.deadline_s is not None and now_s + delay_s >= operation.deadline_s:
            return f"gave up after {attempts} attempts: deadline_s is {config.deadline_s:g}"
        _log.debug(
            "%s %s: attempt %d failed, next in %.3f s: %s",
            operation.name,
            operation.uri,
            attempts,
            delay_s,
            again.error,
        )
        heapq.heappush(self._waiting, (now_s + delay_s, next(self._numbers), operation))
        return None

    def next_s(self) -> float | None:
        """When the first attempt is due."""
        return self._waiting[0][0] if self._waiting else None

    def take_due(self, now_s: float) -> Iterator[Operation[Any]]:
        """Hand over the operations whose next attempt is due."""
        while self._waiting and self._waiting[0][0] <= now_s:
            yield heapq.heappop(self._waiting)[2]

    def take_dropped(self) -> list[Operation[Any]]:
        """Hand over the operations that were given up meanwhile."""
        found: list[Operation[Any]] = []
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            # Asked once: what another thread gives up meanwhile must be in one of the two.
            if item[2].dropped:
                found.append(item[2])
            else:
                self._waiting.append(item)
        heapq.heapify(self._waiting)
        return found

    def __iter__(self) -> Iterator[Operation[Any]]:
        return (item[2] for item in self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def _backoff_of(self, operation: Operation[Any]) -> Backoff:
        return self._list_backoff if operation.name.startswith("list_") else self._backoff
