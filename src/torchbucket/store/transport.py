"""The transport over libcurl: one thread drives every connection of a store. The only module that imports pycurl.

Callers hand over operations from any thread and get futures; the thread signs, sends, receives, judges and retries. It
waits in epoll (kqueue on macOS) and calls libcurl for the sockets that are ready, which releases the GIL meanwhile.
Evidence for one loop over a thread a connection: ``docs/decisions/0001-transport-engine.md``.

This file is above 300 lines because the loop and the handles share every invariant.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import logging
import os
import selectors
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from typing import Any, Final, TypeVar

import certifi
import pycurl

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, StoreError, TransportError, TruncatedError
from torchbucket.store.fair_queue import FairQueue
from torchbucket.store.forking import hold_during_fork, renew_after_fork
from torchbucket.store.operation import Again, Onward, Operation, Request
from torchbucket.store.request import Observer, RequestRecord
from torchbucket.store.retry import Backoff

__all__ = ["Transport", "close_all", "trusted_certificates"]

T = TypeVar("T")

_log = logging.getLogger("torchbucket.transport")

# Source: measured on loopback, docs/decisions/0001-transport-engine.md; a larger buffer means fewer system calls.
_RECEIVE_BUFFER_BYTES: Final = 512 << 10
_SEND_BUFFER_BYTES: Final = 2 << 20  # the most that libcurl takes; source: CURLOPT_UPLOAD_BUFFERSIZE

# A cut takes one turn of the loop; the bound only keeps an interrupt from hanging on a loop that is stuck.
_CUT_TIMEOUT_S: Final = 30.0

# Failures that no other attempt can mend. Source: libcurl's list of error codes.
_HOPELESS: Final = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "the endpoint's scheme is not supported; use http or https",
    pycurl.E_URL_MALFORMAT: "the address could not be read; check endpoint and bucket",
    pycurl.E_PEER_FAILED_VERIFICATION: (
        "the server's certificate is not trusted; give the authority's file as StoreConfig.ca_bundle or in "
        "SSL_CERT_FILE, and check the host's name and the clock"
    ),
    pycurl.E_SSL_CACERT_BADFILE: "the file of trusted certificates could not be read; check StoreConfig.ca_bundle",
    pycurl.E_SSL_CERTPROBLEM: "the client's certificate could not be used",
    pycurl.E_OUT_OF_MEMORY: "libcurl ran out of memory",
}


class Transport:
    """Runs operations over pooled connections, a bounded number at a time, the rest waiting their turn.

    Safe for use by several threads. A forked child gets a thread and connections of its own and never touches the
    parent's; the fork waits until the parent's thread is outside libcurl, so that no lock of TLS or the allocator is
    held in the child.

    Args:
        config: concurrency, retries, timeouts and certificates.
        observer: called after each attempt, on the transport's thread.
    """

    def __init__(self, config: StoreConfig, observer: Observer | None = None) -> None:
        self._config = config
        self._observer = observer
        self._loop: _Loop | None = None
        # Reentrant: the collector may run a writer's destructor, which submits, at any point.
        self._lock = threading.RLock()
        self._finalizer: weakref.finalize[..., Any] | None = None
        renew_after_fork(self)
        _transports.add(self)

    def submit(self, operations: Iterable[Operation[Any]]) -> None:
        """Hand over operations that belong together; groups are served in turn. Their futures tell the outcome."""
        group = tuple(operations)
        while True:
            loop = self._loop
            if loop is None or loop.ended:
                with self._lock:
                    loop = self._loop
                    if loop is None or loop.ended:
                        loop = self._loop = _Loop(self._config, self._observer)
                        if self._finalizer is not None:
                            self._finalizer.detach()
                        self._finalizer = weakref.finalize(self, loop.stop)
                        self._finalizer.atexit = False
            if loop.submit(group):
                return

    def run(self, operation: Operation[T]) -> T:
        """Submit one operation and wait for its result; where the wait is interrupted, cut it and wait for that."""
        self.submit((operation,))
        try:
            return operation.future.result()
        except BaseException:
            if not operation.future.done():
                self.drop((operation,))
                wait([operation.future], timeout=_CUT_TIMEOUT_S)
            raise

    def drop(self, operations: Iterable[Operation[Any]]) -> None:
        """Give operations up: those that wait never start, those on the way are cut; their futures fail."""
        for operation in operations:
            operation.dropped = True
        loop = self._loop
        if loop is not None:
            loop.look_for_dropped()

    def close(self, *, drain: bool = True, timeout_s: float | None = None) -> None:
        """End the thread and its connections, once what was submitted is done or, without ``drain``, at once."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop(drain=drain)
            loop.join(timeout_s)

    def renew(self) -> None:
        """Forget the parent's thread and connections, in a forked child."""
        self._lock = threading.RLock()
        loop, self._loop = self._loop, None
        if loop is not None:
            # libcurl's destructor would end TLS sessions that the parent goes on using: it must never run here.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(loop))


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def close_all(timeout_s: float) -> None:
    """Cut every transport of the process short, at the interpreter's exit."""
    for transport in list(_transports):
        transport.close(drain=False, timeout_s=timeout_s)


class _Attempt:
    """A request on the way, and what has arrived of its answer."""

    __slots__ = ("body_position", "lines", "operation", "request", "started_s")

    def __init__(self, operation: Operation[Any], request: Request) -> None:
        self.operation = operation
        self.request = request
        self.lines: list[bytes] = []
        self.started_s = time.monotonic()
        self.body_position = 0

    def read_body(self, most_bytes: int) -> memoryview:
        """Give libcurl the next piece of the request's body; it copies the piece at once."""
        position = self.body_position
        piece = memoryview(self.request.body or b"")[position : position + most_bytes]
        self.body_position = position + len(piece)
        return piece


class _Loop:
    """The thread, its libcurl handles and the operations in its care."""

    def __init__(self, config: StoreConfig, observer: Observer | None) -> None:
        self._config = config
        self._observer = observer
        self._pid = os.getpid()
        self._backoff = Backoff(config)
        self._certificates = trusted_certificates(config)
        # Held whenever the thread is inside libcurl. Reentrant: a callback on this thread may fork.
        self._gate = threading.RLock()
        self._inbox: deque[tuple[Operation[Any], ...]] = deque()
        self._queue: FairQueue[Operation[Any]] = FairQueue()
        self._waiting: list[tuple[float, int, Operation[Any]]] = []
        self._numbers = itertools.count()
        self._active: dict[pycurl.Curl, _Attempt] = {}
        self._deliveries: list[Callable[[], None]] = []
        self._free: list[pycurl.Curl] = []
        # Every handle, so that a forked child can keep all of them from being destroyed.
        self._handles: list[pycurl.Curl] = []
        self._timer_s: float | None = None
        self._sleeping = False
        self._search_dropped = False
        self._stopping = False
        self._drain = True
        self.ended = False
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = os.pipe()
        for descriptor in (self._wake_reader, self._wake_writer):
            os.set_blocking(descriptor, False)
        # Not closed with the rest: a late wake-up must not write into whatever file got the number next.
        weakref.finalize(self, _close_pipe, self._wake_reader, self._wake_writer).atexit = False
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, config.concurrency)
        # A daemon: an interpreter that exits does not wait for the network.
        self._thread = threading.Thread(target=self._run, name="torchbucket-transport", daemon=True)
        hold_during_fork(self)
        self._thread.start()

    # -- called from any thread ---------------------------------------------------------------------------------------

    def submit(self, group: tuple[Operation[Any], ...]) -> bool:
        """Take a group over; False where the thread has ended and a new one is needed."""
        self._inbox.append(group)
        if self._sleeping:
            self._wake()
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
        self._wake()

    def stop(self, *, drain: bool = False) -> None:
        """Have the thread end, after its operations or at once."""
        if os.getpid() != self._pid:
            return  # A finalizer inherited from the parent, whose thread it is.
        self._drain = drain
        self._stopping = True
        self._wake()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end, unless this is it."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def hold(self) -> None:
        """Wait until the thread is outside libcurl and keep it there, for a fork."""
        self._gate.acquire()

    def resume(self) -> None:
        """Let the thread go on after a fork."""
        self._gate.release()

    def _wake(self) -> None:
        # A full pipe wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._is_over():
                self._sleeping = True
                events = self._selector.select(self._wait_s())
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
                    self._release()

    def _is_over(self) -> bool:
        if not self._stopping:
            return False
        return not self._drain or not (self._active or self._queue or self._waiting or self._inbox)

    def _wait_s(self) -> float | None:
        if self._inbox or self._search_dropped or self._stopping or self._deliveries:
            return 0.0
        due = [
            moment for moment in (self._timer_s, self._waiting[0][0] if self._waiting else None) if moment is not None
        ]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _advance(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        multi = self._multi
        for key, mask in events:
            descriptor = key.fd
            if descriptor == self._wake_reader:
                os.read(self._wake_reader, 4096)
                continue
            action = (pycurl.CSELECT_IN if mask & selectors.EVENT_READ else 0) | (
                pycurl.CSELECT_OUT if mask & selectors.EVENT_WRITE else 0
            )
            multi.socket_action(descriptor, action)
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
            if self._timer_s is None or self._timer_s > time.monotonic():
                return
            self._timer_s = None
            multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            self._collect()
            self._start()

    def _collect(self) -> None:
        while True:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._end(curl, 0, "")
            for curl, number, text in failed:
                self._end(curl, number, text)
            if not left:
                return

    def _start(self) -> None:
        while len(self._active) < self._config.concurrency:
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
            operation.deadline_s = now_s + self._config.operation_timeout_s
        operation.attempts += 1
        try:
            attempt = _Attempt(operation, operation.build())
            curl = self._free.pop() if self._free else self._new_handle()
            try:
                self._prepare(curl, attempt, max(1, int((operation.deadline_s - now_s) * 1000)))
                self._active[curl] = attempt
                self._multi.add_handle(curl)
            except BaseException:
                self._active.pop(curl, None)
                self._rest(curl, attempt.request)
                raise
        except Exception as error:  # noqa: BLE001  # fails this operation, not the others
            self._reject(operation, error)

    def _new_handle(self) -> pycurl.Curl:
        curl = pycurl.Curl()
        self._handles.append(curl)
        self._set_common(curl)
        return curl

    def _set_common(self, curl: pycurl.Curl) -> None:
        config, setopt = self._config, curl.setopt
        setopt(pycurl.NOSIGNAL, 1)
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        setopt(pycurl.PATH_AS_IS, 1)
        setopt(pycurl.USERAGENT, "torchbucket")
        setopt(pycurl.TCP_NODELAY, 1)
        setopt(pycurl.TCP_KEEPALIVE, 1)
        setopt(pycurl.BUFFERSIZE, _RECEIVE_BUFFER_BYTES)
        setopt(pycurl.CONNECTTIMEOUT_MS, max(1, int(config.connect_timeout_s * 1000)))
        setopt(pycurl.LOW_SPEED_LIMIT, 1)
        setopt(pycurl.LOW_SPEED_TIME, config.stall_timeout_s)
        setopt(pycurl.CAINFO, self._certificates)

    def _prepare(self, curl: pycurl.Curl, attempt: _Attempt, left_ms: int) -> None:
        request, setopt = attempt.request, curl.setopt
        if request.method != "GET":
            if request.method == "HEAD":
                setopt(pycurl.NOBODY, 1)
            elif request.body is not None:
                setopt(pycurl.UPLOAD, 1)
                setopt(pycurl.UPLOAD_BUFFERSIZE, _SEND_BUFFER_BYTES)
                setopt(pycurl.INFILESIZE_LARGE, len(request.body))
                setopt(pycurl.READFUNCTION, attempt.read_body)
                # No seek function: libcurl would repeat by itself a request that got no answer on a reused connection,
                # and hide that it may have been done twice. Without one it fails, and the operation judges.
            setopt(pycurl.CUSTOMREQUEST, request.method)
            if request.once:
                setopt(pycurl.FRESH_CONNECT, 1)
        setopt(pycurl.URL, request.url)
        if request.headers:
            setopt(pycurl.HTTPHEADER, request.headers)
        else:
            # An empty list would leave the headers of the handle's previous request in place, its range among them.
            curl.unsetopt(pycurl.HTTPHEADER)
        setopt(pycurl.TIMEOUT_MS, left_ms)
        setopt(pycurl.HEADERFUNCTION, attempt.lines.append)
        setopt(pycurl.WRITEFUNCTION, attempt.operation.sink(attempt.lines))

    def _rest(self, curl: pycurl.Curl, request: Request) -> None:
        """Bring a handle back to what a GET begins with."""
        if request.method == "GET":
            curl.setopt(pycurl.HEADERFUNCTION, _ignore)
            curl.setopt(pycurl.WRITEFUNCTION, _ignore)
        else:
            curl.reset()
            self._set_common(curl)
        self._free.append(curl)

    def _end(self, curl: pycurl.Curl, number: int, text: str) -> None:
        attempt = self._active.pop(curl)
        operation = attempt.operation
        self._multi.remove_handle(curl)
        error: Exception | None = None
        retry: Again | None = None
        onward = False
        result: Any = None
        try:
            if number:
                raise operation.interrupted(attempt.lines) or _failure(operation, number, text)
            result = operation.finish(attempt.lines)
        except Onward:
            onward = True
        except Again as again:
            retry, error = again, again.error
        except Exception as failure:  # noqa: BLE001  # fails this operation, not the others
            error = failure
        if self._observer is not None:
            self._observe(curl, attempt, error)
        self._rest(curl, attempt.request)
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
        delay_s = self._backoff.delay_s(operation.attempts, again.after_s)
        due_s = time.monotonic() + delay_s
        if operation.dropped:
            self._reject(operation, _given_up(operation))
        elif operation.attempts >= self._config.max_attempts:
            self._reject(operation, again.error, f"gave up after {operation.attempts} attempts")
        elif operation.deadline_s is not None and due_s >= operation.deadline_s:
            limit_s = self._config.operation_timeout_s
            self._reject(
                operation,
                again.error,
                f"gave up after {operation.attempts} attempts: operation_timeout_s is {limit_s:g}",
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
        for curl, attempt in list(self._active.items()):
            if attempt.operation.dropped:
                del self._active[curl]
                self._multi.remove_handle(curl)
                self._rest(curl, attempt.request)
                self._reject(attempt.operation, _given_up(attempt.operation))
        for item in [item for item in self._waiting if item[2].dropped]:
            self._waiting.remove(item)
            self._reject(item[2], _given_up(item[2]))
        heapq.heapify(self._waiting)

    def _observe(self, curl: pycurl.Curl, attempt: _Attempt, error: Exception | None) -> None:
        observer, operation = self._observer, attempt.operation
        assert observer is not None
        first_s = curl.getinfo(pycurl.STARTTRANSFER_TIME)
        record = RequestRecord(
            operation=operation.name,
            key=operation.key,
            attempt=operation.attempts,
            status=curl.getinfo(pycurl.RESPONSE_CODE) or None,
            started_s=attempt.started_s,
            first_byte_s=attempt.started_s + first_s if first_s else None,
            ended_s=time.monotonic(),
            bytes_received=curl.getinfo(pycurl.SIZE_DOWNLOAD_T),
            bytes_sent=curl.getinfo(pycurl.SIZE_UPLOAD_T),
            error=None if error is None else str(error),
        )

        self._deliveries.append(lambda: observer(record))

    def _fail_all(self, failure: BaseException | None) -> None:
        """Fail whatever is left, so that nobody waits for a thread that has ended."""
        left = [attempt.operation for attempt in self._active.values()]
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

    def _release(self) -> None:
        for curl in self._active:
            self._multi.remove_handle(curl)
        self._active.clear()
        for curl in self._handles:
            curl.close()
        self._multi.close()
        self._selector.close()

    # -- called by libcurl on the thread ------------------------------------------------------------------------------

    def _watch_socket(self, what: int, descriptor: int, _multi: object, _data: object) -> None:
        try:
            if what == pycurl.POLL_REMOVE:
                self._selector.unregister(descriptor)
                return
            events = (selectors.EVENT_READ if what & pycurl.POLL_IN else 0) | (
                selectors.EVENT_WRITE if what & pycurl.POLL_OUT else 0
            )
            if descriptor in self._selector.get_map():
                self._selector.modify(descriptor, events)
            else:
                self._selector.register(descriptor, events)
        except (KeyError, OSError, ValueError) as error:
            # libcurl may have closed the socket already; the selector has forgotten it then.
            _log.debug("socket %d: %r", descriptor, error)

    def _set_timer(self, timeout_ms: int) -> None:
        self._timer_s = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000


def _close_pipe(reader: int, writer: int) -> None:
    os.close(reader)
    os.close(writer)


def _ignore(piece: bytes) -> None:
    """Stand in for the functions of a handle at rest, so that it keeps nobody's memory alive."""


def trusted_certificates(config: StoreConfig) -> str:
    """The file of trusted certificates: the setting's, else the environment's, else certifi's.

    Raises:
        ConfigError: the environment names a file that is not there.
    """
    if config.ca_bundle is not None:
        return config.ca_bundle
    for name in ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        path = os.environ.get(name)
        if path:
            if not os.path.isfile(path):  # noqa: PTH113  # nothing else here needs a Path
                raise ConfigError(f"{name} names {path!r}, which is no file of certificates; correct or unset it")
            return path
    return certifi.where()


def _given_up(operation: Operation[Any]) -> StoreError:
    return StoreError(
        f"{operation.name} {operation.uri}: given up, since what it belonged to failed or was cancelled",
        operation=operation.name,
        uri=operation.uri,
    )


def _failure(operation: Operation[Any], number: int, text: str) -> Exception:
    """What a libcurl error means: ``Again`` around the error, or the error alone where no other attempt helps."""
    kind: type[StoreError] = TransportError
    said = f"{operation.name} {operation.uri}: "
    if number in _HOPELESS:
        return TransportError(
            f"{said}{_HOPELESS[number]} (libcurl {number}: {text})", operation=operation.name, uri=operation.uri
        )
    if number == pycurl.E_PARTIAL_FILE:
        kind = TruncatedError
        advice = "the connection ended before the announced length"
    elif number == pycurl.E_OPERATION_TIMEDOUT:
        advice = "no connection or no byte in time; check the network, or raise connect_timeout_s or stall_timeout_s"
    elif number in (pycurl.E_COULDNT_CONNECT, pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY):
        advice = "no connection; check endpoint, network and proxy"
    else:
        advice = "the connection failed"
    return Again(kind(f"{said}{advice} (libcurl {number}: {text})", operation=operation.name, uri=operation.uri))
