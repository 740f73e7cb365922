"""The thread that runs a store's operations: it takes them in turn, starts, judges, retries and settles them.

It knows nothing of libcurl: an engine, see ``torchbucket.store.transport.transport``, moves the bytes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from torchbucket.config import StoreConfig
from torchbucket.errors import StoreError, ThrottledError
from torchbucket.store import forking
from torchbucket.store.forking import hold_during_fork
from torchbucket.store.store_future import TransportThread
from torchbucket.store.transport.engine import Attempt, Engine, Events
from torchbucket.store.transport.fair_queue import FairQueue
from torchbucket.store.transport.hedge_race import Hedges
from torchbucket.store.transport.hedging import HedgePolicy
from torchbucket.store.transport.operation import Again, NextRequest, Operation
from torchbucket.store.transport.pace import Pace
from torchbucket.store.transport.request_record import Observer
from torchbucket.store.transport.retry_queue import Contact, RetryQueue

__all__ = ["Loop"]

_log = logging.getLogger("torchbucket.transport")

# A loop with nothing to do for so long ends, with its thread, descriptors and connections; the next operation begins
# another. Source: half of libcurl's CURLOPT_MAXAGE_CONN (118 s), above the pauses between the batches of a training.
_IDLE_S: Final = 60.0


class Loop:
    """The thread, its engine and the operations in its care; started by the constructor."""

    def __init__(self, config: StoreConfig, observer: Observer | None, engine: Engine, contact: Contact) -> None:
        self._config = config
        self._observer = observer
        self._engine = engine
        self._contact = contact
        self._retries = RetryQueue(config, contact)
        self._pace = Pace()
        # With a cap on the bandwidth it is the store itself that makes reads late.
        hedged = config.hedge_share > 0 and config.bandwidth_bytes_per_s is None
        self._hedges = Hedges(HedgePolicy(config.hedge_share), engine, self._cut) if hedged else None
        # Held whenever the thread is inside the engine. Reentrant: a callback on this thread may fork.
        self._gate = threading.RLock()
        # Held to hand operations over and to end. Reentrant: the collector may run a destructor that submits, anywhere.
        self._entrance = threading.RLock()
        self._inbox: deque[tuple[tuple[Operation[Any], ...], Hashable]] = deque()
        self._queue: FairQueue[Operation[Any]] = FairQueue()
        self._outcomes: list[Callable[[], None]] = []
        self._sleeping = False
        self._search_dropped = False
        self._stopping = False
        self._drain = True
        self._idle_since_s: float | None = None
        self._thread = TransportThread(self._run, "torchbucket-transport")
        self._thread.start()

    # -- called from any thread ---------------------------------------------------------------------------------------

    def submit(self, operations: tuple[Operation[Any], ...], caller: Hashable) -> bool:
        """Take a caller's operations over; False where the thread ends and a new one is needed."""
        with self._entrance:
            # A loop that drains takes what its own answers lead to, such as the other parts of a read.
            if self._stopping and not (self._drain and threading.current_thread() is self._thread):
                return False
            self._inbox.append((operations, caller))
        if self._sleeping:
            self._engine.wake()
        return True

    def look_for_dropped(self) -> None:
        """Have the thread cut the operations that were dropped."""
        self._search_dropped = True
        self._engine.wake()

    def stop(self, *, drain: bool = False) -> None:
        """Have the thread end, after its operations or at once."""
        if self._thread.process != forking.forks_before:
            return  # A finalizer inherited from the parent, whose thread it is.
        with self._entrance:
            self._stopping = True
            self._drain = self._drain and drain
        self._engine.wake()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end."""
        self._thread.join(timeout_s)

    def hold(self) -> None:
        """Wait until the thread is outside the engine and keep it there, for a fork."""
        self._gate.acquire()

    def resume(self) -> None:
        """Let the thread go on after a fork."""
        self._gate.release()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            hold_during_fork(self)
            while not self._is_over():
                # With every connection in use, what is submitted waits for one anyway.
                self._sleeping = self._engine.busy < self._config.concurrency
                events = self._engine.wait(self._wait_s())
                self._sleeping = False
                with self._gate:
                    self._advance(events)
                self._tell_outcomes()
                if self._thread.process != forking.forks_before:
                    return
        except BaseException as error:  # noqa: BLE001  # reported to everyone who waits
            failure = error
            _log.exception("the transport's thread failed; its operations fail with it")
        finally:
            if self._thread.process == forking.forks_before:
                with self._entrance:
                    self._stopping, self._drain = True, False
                self._fail_all(failure)
                with self._gate:
                    self._engine.close()

    def _is_over(self) -> bool:
        if self._engine.busy or self._queue or self._retries or self._inbox:
            self._idle_since_s = None
            return self._stopping and not self._drain
        if self._stopping:
            return True
        now_s = time.monotonic()
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        if now_s < self._idle_since_s + _IDLE_S:
            return False
        with self._entrance:
            if self._inbox:
                return False  # which whoever closes meanwhile may want done
            self._stopping = True
        return True

    def _wait_s(self) -> float | None:
        hedge_s = None if self._hedges is None else self._hedges.next_s()
        now_s = time.monotonic()
        moments_s = (
            self._engine.timer_s,
            hedge_s,
            self._retries.next_s(),
            self._pace_due_s(now_s) if self._pace.strained else None,
            None if self._idle_since_s is None else self._idle_since_s + _IDLE_S,
        )
        due_s = min((moment_s for moment_s in moments_s if moment_s is not None), default=None)
        return 0.0 if self._inbox else None if due_s is None else max(0.0, due_s - now_s)

    def _pace_due_s(self, now_s: float) -> float | None:
        """When the next request may begin, where it is the pace that holds it up."""
        if not self._queue or self._engine.busy >= self._config.concurrency:
            return None
        return now_s + self._pace.wait_s(now_s)

    def _advance(self, events: Events) -> None:
        engine = self._engine
        now_s = time.monotonic()  # What had come by now is served; what comes meanwhile is not known to be late.
        engine.take(events)
        while self._inbox:
            self._queue.add(*self._inbox.popleft())
        if self._search_dropped:
            self._search_dropped = False
            self._cut_dropped()
        for operation in self._retries.take_due(now_s):
            self._queue.add_first(operation)
        self._collect()
        if self._hedges is not None and self._hedges.due(now_s):
            self._hedge(self._hedges, now_s)
        self._start()
        # A request that was added is begun by the time-out that libcurl sets to now; a few rounds save as many waits.
        for _ in range(8):
            if engine.timer_s is None or engine.timer_s > time.monotonic():
                return
            engine.fire_timer()
            self._collect()
            self._start()

    def _hedge(self, hedges: Hedges, now_s: float) -> None:
        """Ask again for reads that are late, drop the second request of a race that is decided, end stand-stills."""
        hedges.decide()
        for twin in hedges.late(now_s, strained=self._pace.strained):
            self._queue.add_first(twin)
        for attempt in hedges.stalled(now_s, self._retries.is_last_attempt):
            operation = attempt.operation
            if attempt.over:
                continue
            self._engine.interrupt(attempt)
            self._end(attempt, Again(operation.error("no byte came any more; asking again from where it stopped")))

    def _collect(self) -> None:
        for attempt, failure in self._engine.ended():
            self._end(attempt, failure)

    def _start(self) -> None:
        while self._engine.busy < self._config.concurrency:
            if self._pace.strained and self._queue and self._pace.wait_s(time.monotonic()) > 0:
                return
            operation = self._queue.pop()
            if operation is None:
                return
            if operation.dropped:
                self._reject(operation, _given_up(operation))
            elif operation.begun or operation.future.set_running_or_notify_cancel():
                operation.begun = True
                self._begin(operation)

    def _begin(self, operation: Operation[Any]) -> None:
        now_s = time.monotonic()
        left_s = self._retries.begin(operation, now_s)
        try:
            attempt = Attempt(operation, operation.build())
            self._engine.begin(attempt, left_s)
        except Exception as error:  # noqa: BLE001  # fails this operation, not the others
            self._reject(operation, error)
            return
        self._pace.begin(now_s)
        if self._hedges is not None:
            self._hedges.began(attempt)

    def _end(self, attempt: Attempt, failed: Exception | None) -> None:
        attempt.over = True
        operation = attempt.operation
        result, failure = _judged(attempt, failed)
        self._account(attempt, failure)
        self._engine.rest(attempt)
        if self._hedges is not None:
            meant = self._hedges.ended(attempt, result, failure)
            if meant is None:
                return
            operation, result, failure = meant
        if failure is None:
            self._outcomes.append(partial(operation.future.set_result, result))
        elif isinstance(failure, NextRequest):
            # A step that got on is no attempt of the next, and has used none of its time.
            operation.attempts, operation.deadline_s = 0, None
            self._queue.add_first(operation)
        elif isinstance(failure, Again):
            self._try_again(operation, failure)
        else:
            self._reject(operation, failure)

    def _account(self, attempt: Attempt, failure: Exception | None) -> None:
        """Tell the policies and the observer of an attempt that is over."""
        error = failure.error if isinstance(failure, Again) else None if isinstance(failure, NextRequest) else failure
        if error is None:
            self._retries.answered()
            if self._hedges is not None:
                self._hedges.learn(attempt)
        if attempt.lines:
            self._contact.made = True
        if error is None or (isinstance(error, StoreError) and error.status is not None):
            self._pace.answered(time.monotonic(), refused=isinstance(error, ThrottledError))
        if self._observer is not None:
            self._outcomes.append(partial(self._observer, self._engine.record(attempt, error)))

    def _cut(self, attempt: Attempt) -> None:
        """Break an attempt off that another one stands in for."""
        attempt.over = True
        self._engine.interrupt(attempt)
        if self._hedges is not None and not (attempt.lines or attempt.hedge or attempt.operation.dropped):
            self._hedges.learn(attempt, time.monotonic())
        if self._observer is not None:
            self._outcomes.append(partial(self._observer, self._engine.record(attempt, None, cut=True)))
        self._engine.rest(attempt)

    def _try_again(self, operation: Operation[Any], again: Again) -> None:
        if operation.dropped:
            self._reject(operation, _given_up(operation))
            return
        ending = self._retries.add(operation, again, time.monotonic())
        if ending is not None:
            self._reject(operation, again.error, ending)

    def _owner(self, operation: Operation[Any]) -> Operation[Any]:
        return operation if self._hedges is None else self._hedges.owner(operation)

    def _reject(self, operation: Operation[Any], error: BaseException, ending: str = "") -> None:
        if isinstance(error, StoreError):
            error.attempts = max(1, operation.attempts)
            if ending:
                error.message = f"{error.message} ({ending})"
        self._outcomes.append(partial(_fail, operation, error))

    def _cut_dropped(self) -> None:
        for attempt in self._engine.active():
            operation = self._owner(attempt.operation)
            if operation.dropped and not attempt.over:
                if self._hedges is not None:
                    self._hedges.give_up(operation)
                if not attempt.over:
                    self._cut(attempt)
                self._reject(operation, _given_up(operation))
        for operation in self._retries.take_dropped() + self._queue.take_out(lambda operation: operation.dropped):
            self._reject(operation, _given_up(operation))

    def _fail_all(self, failure: BaseException | None) -> None:
        """Fail whatever is left, so that nobody waits for a thread that has ended."""
        found = [attempt.operation for attempt in self._engine.active()]
        found += self._queue
        found += self._retries
        while self._inbox:
            found += self._inbox.popleft()[0]
        # Once each: of an operation with two requests, its twin is not waited for.
        left = dict.fromkeys(map(self._owner, found))
        why = (
            "the store was closed meanwhile; open it again" if failure is None else f"the transport failed: {failure!r}"
        )
        for operation in left:
            error = operation.error(why)
            error.__cause__ = failure
            self._reject(operation, error)
        self._tell_outcomes()

    def _tell_outcomes(self) -> None:
        """Settle futures and call the observer, outside the gate: what they call may take long, or fork."""
        outcomes, self._outcomes = self._outcomes, []
        for tell in outcomes:
            try:
                tell()
            except Exception:  # noqa: BLE001  # one caller's mistake is not the others' failure
                _log.exception("an outcome could not be delivered")
            if self._thread.process != forking.forks_before:
                return  # It forked, on this thread: all of this is the parent's.


def _fail(operation: Operation[Any], error: BaseException) -> None:
    # A future that never ran may have been cancelled.
    if operation.begun or operation.future.set_running_or_notify_cancel():
        operation.future.set_exception(error)


def _judged(attempt: Attempt, failed: Exception | None) -> tuple[Any, Exception | None]:
    """The result or the failure of an attempt that is over."""
    operation = attempt.operation
    try:
        if failed is None or operation.satisfied:
            return operation.finish(attempt.lines), None
        failure = operation.interrupted(attempt.lines) or failed
    except Exception as raised:  # noqa: BLE001  # fails this operation, not the others
        failure = raised
    if isinstance(failure, Again | NextRequest | StoreError):
        # What is expected says all by itself. Its frames would hold the operation, and with it the memory of callers,
        # until the collector comes.
        failure.__traceback__ = None
    return None, failure


def _given_up(operation: Operation[Any]) -> StoreError:
    return operation.error("given up, since what it belonged to failed or was cancelled", StoreError)
