"""Second requests for reads that are late: who is late, which of two requests goes on, what becomes of the other.

The two requests of a race never touch the same memory. The second belongs to a *twin* of the operation, which collects
its bytes by itself; they become the operation's result only after the first request has been broken off, between two
calls of libcurl. So nothing is written into the target of a read that is done, and no result is made of two answers.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from torchbucket.errors import StoreError
from torchbucket.store.transport.engine import Attempt, Engine
from torchbucket.store.transport.hedging import HedgePolicy
from torchbucket.store.transport.operation import Again, HedgedOperation, Operation

__all__ = ["Hedges"]

_log = logging.getLogger("torchbucket.transport")

# Bodies are looked at for a stand-still once in so long, an eighth of the shortest that counts.
_LOOK_S: Final = 0.25
# So often those are looked at again that are late but could not be asked for again yet. Source: chosen; a fifth of the
# shortest time that counts as late.
_RECHECK_S: Final = 0.005


@dataclass(slots=True, eq=False)
class _Race:
    """An operation whose answer two requests are to bring.

    Args:
        operation: whose result it is to be.
        twin: asks for the same.
        first: the operation's own request, or None when it is over.
        second: the twin's, or None before it begins.
        failure: of the first, while the second is on its way.
        patience: how many times as long as any other read the second may take before it is late.
    """

    operation: HedgedOperation[Any]
    twin: Operation[Any]
    first: Attempt | None
    second: Attempt | None = None
    failure: Again | None = None
    patience: int = 1


class Hedges:
    """The second requests of one loop, and on its thread.

    Args:
        policy: says when a read is late and whether it may be asked for again.
        engine: holds the requests.
        cut: breaks a request off that another one stands in for, and lets go of it.
    """

    def __init__(self, policy: HedgePolicy, engine: Engine, cut: Callable[[Attempt], None]) -> None:
        self._policy = policy
        self._engine = engine
        self._cut = cut
        self._unanswered: deque[Attempt] = deque()  # in the order of their beginning
        self._overdue: list[Attempt] = []  # of those, the ones that would be late, had they been sent at once
        self._recheck_s = 0.0
        # Each race under both its operations: the one whose result it brings and the twin.
        self._races: dict[Operation[Any], _Race] = {}
        self._look_s: float | None = None
        self._next_s: float | None = None

    def began(self, attempt: Attempt) -> None:
        """Watch a read's request."""
        operation = attempt.operation
        if not isinstance(operation, HedgedOperation):
            return
        if self._look_s is None:
            self._look_s = attempt.started_s + _LOOK_S
        self._unanswered.append(attempt)
        race = self._races.get(operation)
        if race is not None:
            race.second = attempt
            attempt.hedge = True

    def owner(self, operation: Operation[Any]) -> Operation[Any]:
        """Return the operation whose result is awaited: of a twin the one that it stands in for, else the same."""
        race = self._races.get(operation)
        return operation if race is None else race.operation

    def next_s(self) -> float | None:
        """When a read may be late, or is to be looked at; ``due`` tells whether that is over."""
        unanswered = self._unanswered
        while unanswered and _is_answered(unanswered[0]):
            unanswered.popleft()
        moments_s = [self._look_s] if self._look_s is not None else []
        late_after_s = self._policy.late_after_s
        if late_after_s is not None:
            if unanswered:
                moments_s.append(unanswered[0].started_s + late_after_s)
            if self._overdue:
                moments_s.append(self._recheck_s)
        self._next_s = min(moments_s, default=None)
        return self._next_s

    def due(self, now_s: float) -> bool:
        """Whether there is anything to do: a race that may be decided, a read that may be late or not moving."""
        return bool(self._races) or (self._next_s is not None and now_s >= self._next_s)

    def late(self, now_s: float, *, strained: bool) -> list[Operation[Any]]:
        """Return the twins to begin, for reads whose first byte is late by now.

        The time that a connection took to make does not count. A late read that may not be asked for again, since the
        service is strained or the account used up, waits for its turn. A second request that is late as well is
        replaced by another, which may take twice as long: where one request in a hundred is slow, so is one second
        request in a hundred.
        """
        twins: list[Operation[Any]] = []
        late_after_s = self._policy.late_after_s
        if late_after_s is None:
            return twins
        unanswered, waiting = self._unanswered, len(self._overdue)
        while unanswered and (_is_answered(unanswered[0]) or now_s - unanswered[0].started_s >= late_after_s):
            self._overdue.append(unanswered.popleft())
        if len(self._overdue) == waiting and now_s < self._recheck_s:
            return twins
        self._recheck_s = now_s + _RECHECK_S
        overdue, self._overdue = self._overdue, []
        for attempt in overdue:
            if _is_answered(attempt) or attempt.operation.dropped:
                continue
            if strained or not self._is_late(attempt, now_s, late_after_s):
                self._overdue.append(attempt)
                continue
            twin = self._made_twin(attempt)
            if twin is not None and self._policy.take():
                self._race(attempt, twin)
                twins.append(twin)
        return twins

    def _is_late(self, attempt: Attempt, now_s: float, late_after_s: float) -> bool:
        scarcity = self._policy.scarcity
        if scarcity == math.inf:
            return False
        race = self._races.get(attempt.operation)
        sent_s = self._engine.sent_s(attempt)
        patience_s = late_after_s * scarcity * (1 if race is None else race.patience)
        return sent_s is not None and now_s - sent_s >= patience_s

    def stalled(self, now_s: float, is_last_attempt: Callable[[Operation[Any]], bool]) -> list[Attempt]:
        """Return the reads that do not move any more and should be broken off, to go on from where they are.

        Without another attempt it is better to wait as long as ``stall_timeout_s`` allows.
        """
        found: list[Attempt] = []
        if self._look_s is None or now_s < self._look_s:
            return found
        for attempt in self._engine.active():
            operation = attempt.operation
            if not isinstance(operation, HedgedOperation):
                continue
            if not attempt.lines and self._policy.late_after_s is None:
                continue  # Nothing is known of first bytes; of a body it is that it was moving.
            received_bytes = self._engine.received_bytes(attempt)
            if received_bytes != attempt.moved_bytes:
                attempt.moved_bytes, attempt.moved_s = received_bytes, now_s
            elif (
                now_s - attempt.moved_s >= self._policy.stalled_after_s(operation.attempts)
                and not is_last_attempt(self.owner(operation))
                and self._policy.take()
            ):
                found.append(attempt)
        self._look_s = now_s + _LOOK_S if self._engine.busy else None
        return found

    def decide(self) -> None:
        """Where one request of a race has begun to answer well, break the other off."""
        for operation, race in list(self._races.items()):
            if operation is race.twin:
                continue
            first, second = race.first, race.second
            if first is not None and second is not None:
                if first.lines:
                    if _answers_well(first):
                        self._end(race)
                elif _answers_well(second):
                    race.first = None
                    self._cut(first)

    def ended(
        self, attempt: Attempt, result: Any, failure: Exception | None
    ) -> tuple[Operation[Any], Any, Exception | None] | None:
        """Return the operation whose end this request's is, with its result or failure.

        None where another request for the same is still on its way.
        """
        race = self._races.get(attempt.operation)
        if race is None:
            return attempt.operation, result, failure
        operation = race.operation
        if attempt is not race.second:
            race.first = None
            if isinstance(failure, Again) and race.second is not None:
                race.failure = failure
                return None
            self._end(race)
            return operation, result, failure
        race.second = None
        first = race.first
        if failure is not None:
            self._end(race)
            if isinstance(failure, StoreError):
                # Such as that there is no object: no use in waiting for the first to hear it too. The operation asks
                # again, since only itself knows what to make of the answer.
                if first is not None:
                    self._cut(first)
                return operation, None, Again(failure)
            if first is not None:
                if first.lines or not _answers_well(attempt):
                    self._overdue.append(first)
                    return None
                self._cut(first)  # As ``decide`` would have done, had the answer not begun and broken at once.
            return operation, None, race.failure or failure
        self._end(race)
        if first is not None:
            self._cut(first)
        try:
            return operation, operation.adopt(result), None
        except Exception as error:  # noqa: BLE001  # fails this operation, not the others
            return operation, None, error

    def give_up(self, operation: Operation[Any]) -> None:
        """Break the second request of an operation off, if there is one."""
        race = self._races.get(operation)
        if race is not None:
            self._end(race)

    def _end(self, race: _Race) -> None:
        del self._races[race.operation], self._races[race.twin]
        race.twin.dropped = True
        if race.second is not None:
            second, race.second = race.second, None
            self._cut(second)

    def learn(self, attempt: Attempt, now_s: float | None = None) -> None:
        """Note how long a read's first byte took, or where it has not come, that it has not by now."""
        if isinstance(attempt.operation, HedgedOperation):
            sent_s = self._engine.sent_s(attempt)
            answered_s = self._engine.answered_s(attempt) if now_s is None else now_s
            if sent_s is not None and answered_s is not None:
                self._policy.learn(max(0.0, answered_s - sent_s))

    def _made_twin(self, attempt: Attempt) -> Operation[Any] | None:
        """Make another operation for what an attempt asks for, if that can be."""
        race = self._races.get(attempt.operation)
        if race is not None and race.first is None:
            return None  # The second request is all that is left of the race.
        operation = self.owner(attempt.operation)
        assert isinstance(operation, HedgedOperation)
        try:
            twin: Operation[Any] | None = operation.twin()
        except Exception:  # noqa: BLE001  # the first request goes on; this must not end the loop
            _log.exception("%s %s: no second request could be made", operation.name, operation.uri)
            return None
        if twin is not None:
            twin.deadline_s = operation.deadline_s
            twin.begun = True  # Nobody waits for its future.
        return twin

    def _race(self, attempt: Attempt, twin: Operation[Any]) -> None:
        """Have a twin race a late request; where that is a twin's own, it takes the place of it."""
        race = self._races.get(attempt.operation)
        if race is None:
            operation = attempt.operation
            assert isinstance(operation, HedgedOperation)
            self._races[operation] = self._races[twin] = _Race(operation, twin, attempt)
            return
        del self._races[race.twin]
        race.twin.dropped = True
        self._races[twin], race.twin, race.second = race, twin, None
        race.patience *= 2
        self._cut(attempt)


def _is_answered(attempt: Attempt) -> bool:
    return attempt.over or bool(attempt.lines)


def _answers_well(attempt: Attempt) -> bool:
    """Whether the answer's status line has come and promises the object's bytes."""
    for line in reversed(attempt.lines):
        if line.startswith(b"HTTP/"):
            return line.split(None, 2)[1:2] in ([b"200"], [b"206"])
    return False
