"""The thread that runs a store's operations: it takes them in turn, starts, judges, retries and settles them.

It knows nothing of libcurl: an engine, see ``torchbucket.store.transport``, moves the bytes.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeAlias

from torchbucket.config import StoreConfig
from torchbucket.errors import StoreError, TransportError
from torchbucket.store.fair_queue import FairQueue
from torchbucket.store.forking import hold_during_fork
from torchbucket.store.operation import Again, Onward, Operation, Request
from torchbucket.store.request import Observer, RequestRecord
from torchbucket.store.retry import Backoff

__all__ = ["Attempt", "Engine", "Events", "Loop"]

_log = logging.getLogger("torchbucket.transport")

Events: TypeAlias = "list[tuple[Any, int]]"
"""What a selector returns: keys and masks."""


class Attempt:
    """A request on the way, and what has arrived of its answer."""

    __slots__ = ("body_position", "lines", "operation", "request", "started_s")

    def __init__(self, operation: Operation[Any], request: Request) -> None:
        self.operation = operation
        self.request = request
        self.lines: list[bytes] = []
        self.started_s = time.monotonic()
        self.body_position = 0

    def read_body(self, most_bytes: int) -> memoryview:
        """Give the engine the next piece of the request's body; it copies the piece at once."""
        position = self.body_position
        piece = memoryview(self.request.body or b"")[position : position + most_bytes]
        self.body_position = position + len(piece)
        return piece


class Engine(Protocol):
    """Moves the bytes of requests. Only ``wake`` may be called from another thread than the loop's."""

    timer_s: float | None
    """When ``fire_timer`` is due, on the monotonic clock."""

    @property
    def busy(self) -> int:
        """How many attempts are on their way."""
        ...

    def active(self) -> list[Attempt]:
        """The attempts that are on their way."""
        ...

    def wake(self) -> None:
        """End the present or next ``wait`` at once."""
        ...

    def wait(self, timeout_s: float | None) -> Events:
        """Sleep until a connection is ready, someone wakes the engine, or the time is over."""
        ...

    def take(self, events: Events) -> None:
        """Move what the events say is ready."""
        ...

    def fire_timer(self) -> None:
        """Do what was due at ``timer_s``."""
        ...

    def begin(self, attempt: Attempt, left_s: float) -> None:
        """Send a request, which may take ``left_s``."""
        ...

    def ended(self) -> Iterator[tuple[Attempt, Exception | None]]:
        """Hand over the attempts that are over, with the failure of each; the caller calls ``rest`` for every one."""
        ...

    def record(self, attempt: Attempt, error: Exception | None) -> RequestRecord:
        """Describe an attempt that is over and not yet at rest."""
        ...

    def rest(self, attempt: Attempt) -> None:
        """Let go of an attempt that is over."""
        ...

    def cut(self, attempt: Attempt) -> None:
        """Break off an attempt that is on its way, and let go of it."""
        ...

    def close(self) -> None:
        """End all connections."""
        ...


class Loop:
    """The thread, its engine and the operations in its care; started by the constructor."""

    def __init__(self, config: StoreConfig, observer: Observer | None, engine: Engine) -> None:
        self._config = config
        self._observer = observer
        self._engine = engine
        self._pid = os.getpid()
        self._backoff = Backoff(config.retry)
        self._list_backoff = Backoff(config.list_retry) if config.list_retry is not None else self._backoff
        # Held whenever the thread is inside the engine. Reentrant: a callback on this thread may fork.
        self._gate = threading.RLock()
        self._inbox: deque[tuple[Operation[Any], ...]] = deque()
        self._queue: FairQueue[Operation[Any]] = FairQueue()
        self._waiting: list[tuple[float, int, Operation[Any]]] = []
        self._numbers = itertools.count()
        self._deliveries: list[Callable[[], None]] = []
        self._sleeping = False
        self._search_dropped = False
        self._stopping = False
        self._drain = True
        self.ended = False
        # A daemon: an interpreter that exits does not wait for the network.
        self._thread = threading.Thread(target=self._run, name="torchbucket-transport", daemon=True)
        hold_during_fork(self)
        self._thread.start()

    # -- called from any thread ---------------------------------------------------------------------------------------

    def submit(self, group: tuple[Operation[Any], ...]) -> bool:
        """Take a group over; False where the thread has ended and a new one is needed."""
        self._inbox.append(group)
        if self._sleeping:
            self._engine.wake()
        if self.ended:
            # The thread may have ended before it saw the group; whoever takes it out first owns it.
            try:
                self._inbox.remove(group)
            except ValueError:
                return True
            return False
        return True

    def look_for_dropped(self) -> None:
        """Have the thread cut the operations that were dropped."""
        self._search_dropped = True
        self._engine.wake()

    def stop(self, *, drain: bool = False) -> None:
        """Have the thread end, after its operations or at once."""
        if os.getpid() != self._pid:
            return  # A finalizer inherited from the parent, whose thread it is.
        self._drain = drain
        self._stopping = True
        self._engine.wake()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end, unless this is it."""
        if threading.current_thread() is not self._thread:
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
            while not self._is_over():
                self._sleeping = True
                events = self._engine.wait(self._wait_s())
                self._sleeping = False
                with self._gate:
                    self._advance(events)
                self._deliver()
                if os.getpid() != self._pid:
                    return  # Something that was delivered forked, on this thread: all of this is the parent's.
        except BaseException as error:  # noqa: BLE001  # reported to everyone who waits
            failure = error
            _log.exception("the transport's thread failed; its operations fail with it")
        finally:
            if os.getpid() == self._pid:
                self.ended = True
                self._fail_all(failure)
                with self._gate:
                    self._engine.close()

    def _is_over(self) -> bool:
        if not self._stopping:
            return False
        return not self._drain or not (self._engine.busy or self._queue or self._waiting or self._inbox)

    def _wait_s(self) -> float | None:
        if self._inbox or self._search_dropped or self._stopping or self._deliveries:
            return 0.0
        due = [
            moment
            for moment in (self._engine.timer_s, self._waiting[0][0] if self._waiting else None)
            if moment is not None
        ]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _advance(self, events: Events) -> None:
        engine = self._engine
        engine.take(events)
        while self._inbox:
            self._queue.add(self._inbox.popleft())
        if self._search_dropped:
            self._search_dropped = False
            self._cut_dropped()
        now_s = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now_s:
            self._queue.add_first(heapq.heappop(self._waiting)[2])
        self._collect()
        self._start()
        # A request that was added is begun by the time-out that libcurl sets to now; a few rounds save as many waits.
        for _ in range(8):
            if engine.timer_s is None or engine.timer_s > time.monotonic():
                return
            engine.fire_timer()
            self._collect()
            self._start()

    def _collect(self) -> None:
        for attempt, failure in self._engine.ended():
            self._end(attempt, failure)

    def _start(self) -> None:
        while self._engine.busy < self._config.concurrency:
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
        if operation.deadline_s is None:
            operation.deadline_s = now_s + self._backoff_of(operation).config.deadline_s
        operation.attempts += 1
        try:
            attempt = Attempt(operation, operation.build())
            self._engine.begin(attempt, operation.deadline_s - now_s)
        except Exception as error:  # noqa: BLE001  # fails this operation, not the others
            self._reject(operation, error)

    def _end(self, attempt: Attempt, failed: Exception | None) -> None:
        operation = attempt.operation
        error: Exception | None = None
        retry: Again | None = None
        onward = False
        result: Any = None
        try:
            if failed is not None:
                raise operation.interrupted(attempt.lines) or failed
            result = operation.finish(attempt.lines)
        except Onward:
            onward = True
        except Again as again:
            retry, error = again, again.error
        except Exception as failure:  # noqa: BLE001  # fails this operation, not the others
            error = failure
        if self._observer is not None:
            record = self._engine.record(attempt, error)
            self._deliveries.append(partial(self._observer, record))
        self._engine.rest(attempt)
        if onward:
            operation.attempts = 0
            self._queue.add_first(operation)
        elif retry is not None:
            self._try_again(operation, retry)
        elif error is not None:
            self._reject(operation, error)
        else:
            self._deliveries.append(lambda: operation.future.set_result(result))

    def _try_again(self, operation: Operation[Any], again: Again) -> None:
        backoff = self._backoff_of(operation)
        delay_s = backoff.delay_s(operation.attempts, again.after_s)
        due_s = time.monotonic() + delay_s
        if operation.dropped:
            self._reject(operation, _given_up(operation))
        elif operation.attempts >= backoff.config.max_attempts:
            self._reject(operation, again.error, f"gave up after {operation.attempts} attempts")
        elif operation.deadline_s is not None and due_s >= operation.deadline_s:
            limit_s = backoff.config.deadline_s
            self._reject(
                operation,
                again.error,
                f"gave up after {operation.attempts} attempts: deadline_s is {limit_s:g}",
            )
        else:
            _log.debug(
                "%s %s: attempt %d failed, next in %.3f s: %s",
                operation.name,
                operation.uri,
                operation.attempts,
                delay_s,
                again.error,
            )
            heapq.heappush(self._waiting, (due_s, next(self._numbers), operation))

    def _backoff_of(self, operation: Operation[Any]) -> Backoff:
        return self._list_backoff if operation.name.startswith("list_") else self._backoff

    def _reject(self, operation: Operation[Any], error: BaseException, ending: str = "") -> None:
        if isinstance(error, StoreError):
            error.attempts = max(1, operation.attempts)
            if ending:
                error.message = f"{error.message} ({ending})"
        future = operation.future

        def deliver() -> None:
            # A future that never ran may have been cancelled.
            if operation.begun or future.set_running_or_notify_cancel():
                future.set_exception(error)

        self._deliveries.append(deliver)

    def _cut_dropped(self) -> None:
        for attempt in self._engine.active():
            if attempt.operation.dropped:
                self._engine.cut(attempt)
                self._reject(attempt.operation, _given_up(attempt.operation))
        for item in [item for item in self._waiting if item[2].dropped]:
            self._waiting.remove(item)
            self._reject(item[2], _given_up(item[2]))
        heapq.heapify(self._waiting)

    def _fail_all(self, failure: BaseException | None) -> None:
        """Fail whatever is left, so that nobody waits for a thread that has ended."""
        left = [attempt.operation for attempt in self._engine.active()]
        left += self._queue
        left += [item[2] for item in self._waiting]
        while self._inbox:
            left += self._inbox.popleft()
        why = (
            "the store was closed meanwhile; open it again" if failure is None else f"the transport failed: {failure!r}"
        )
        for operation in left:
            error = TransportError(
                f"{operation.name} {operation.uri}: {why}", operation=operation.name, uri=operation.uri
            )
            error.__cause__ = failure
            self._reject(operation, error)
        self._deliver()

    def _deliver(self) -> None:
        """Settle futures and call the observer, outside the gate: what they call may take long, or fork."""
        deliveries, self._deliveries = self._deliveries, []
        for deliver in deliveries:
            try:
                deliver()
            except Exception:  # noqa: BLE001  # one caller's mistake is not the others' failure
                _log.exception("an outcome could not be delivered")


def _given_up(operation: Operation[Any]) -> StoreError:
    return StoreError(
        f"{operation.name} {operation.uri}: given up, since what it belonged to failed or was cancelled",
        operation=operation.name,
        uri=operation.uri,
    )
