"""libcurl as the engine of a loop: handles, sockets and timers.

It waits in epoll (poll where there is none) and calls libcurl for the sockets that are ready, which releases the GIL
meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import random
import select
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Final

import pycurl

from torchbucket.config import StoreConfig
from torchbucket.errors import TransportError
from torchbucket.store.transport.bandwidth import Bandwidth
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.certificates import trusted_certificates
from torchbucket.store.transport.curl_failures import NO_DESCRIPTORS, curl_failure
from torchbucket.store.transport.engine import Attempt, Events
from torchbucket.store.transport.operation import Sink
from torchbucket.store.transport.request_record import RequestRecord
from torchbucket.store.transport.rounds import Rounds

__all__ = ["CurlEngine"]

_log = logging.getLogger("torchbucket.transport")

# Source: measured on loopback, docs/decisions/0001-transport-engine.md. What is received is copied on from a buffer
# that fits into the second-level cache; for what is sent a larger one means fewer system calls.
_TIMEOUT_UNITS_PER_S: Final = 1 if hasattr(select, "epoll") else 1000

_RECEIVE_BUFFER_BYTES: Final = 128 << 10
_SEND_BUFFER_BYTES: Final = 512 << 10  # each request that is sending has one: 64 of them 32 MiB

# Under a cap, buffers of so much of a second, since libcurl fills ten in a row for each connection that is ready
# (source: maxloops in its transfer.c); 16 KiB is its own size.
_CAPPED_BUFFER_S: Final = 1 / 512
_BUFFERS_IN_A_ROW: Final = 10
_LEAST_BUFFER_BYTES: Final = 16 << 10

# libcurl does not begin to watch for a stall (CURLOPT_LOW_SPEED_TIME) where a request was the first of a connection and
# nothing came, until the connection's time-out fires: seen with 8.23. What it is made to look at, it watches.
_LOOK_S: Final = 1.0


class CurlEngine:
    """libcurl's handles for one loop; see ``Engine``."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        # As bytes, since pycurl takes no text but ASCII: the path may be that of an environment in any folder.
        self._certificates = os.fsencode(trusted_certificates(config))
        self._http_proxy = _proxy_in_capitals()
        self._active: dict[pycurl.Curl, Attempt] = {}
        self._free: list[pycurl.Curl] = []
        # Every handle, so that a forked child can keep all of them from being destroyed.
        self._handles: list[pycurl.Curl] = []
        self._rounds = Rounds()
        cap = config.bandwidth_bytes_per_s
        self._bandwidth = Bandwidth(cap) if cap is not None else None
        self._receive_bytes, self._send_bytes = _RECEIVE_BUFFER_BYTES, _SEND_BUFFER_BYTES
        self._stall_s = config.stall_timeout_s
        if cap is not None:
            piece = max(_LEAST_BUFFER_BYTES, int(cap * _CAPPED_BUFFER_S))
            self._receive_bytes = min(self._receive_bytes, piece)
            self._send_bytes = min(self._send_bytes, piece)
            # A connection that waits for its turn among the others is not stalled.
            self._stall_s = max(self._stall_s, math.ceil(4 * config.concurrency * _BUFFERS_IN_A_ROW * piece / cap))
        try:
            self._poll = select.epoll() if hasattr(select, "epoll") else select.poll()
            self._wake_reader, self._wake_writer = os.pipe()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            raise TransportError(NO_DESCRIPTORS) from error
        for descriptor in (self._wake_reader, self._wake_writer):
            os.set_blocking(descriptor, False)
        # Not closed with the rest: a late wake-up must not write into whatever file got the number next.
        weakref.finalize(self, _close_pipe, self._wake_reader, self._wake_writer).atexit = False
        self._poll.register(self._wake_reader, select.POLLIN)
        self._watched: set[int] = set()
        # Requests that libcurl has been made to look at since they were sent, and when it next is at the others.
        self._looked_at: set[pycurl.Curl] = set()
        self._look_s = 0.0
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_MAXCONNECTS, config.concurrency)

    @property
    def timer_s(self) -> float | None:
        # Asked for, rather than told by a callback, of which each request would make two.
        due_ms: int = self._multi.timeout()
        look_s = self._look_s if self._active else None
        if due_ms < 0:
            return look_s
        # libcurl sets itself a time-out, due at once, to go on with a body that it has not read to its end.
        pause_s = self._bandwidth.wait_s() if self._bandwidth is not None else 0.0
        due_s = time.monotonic() + max(pause_s, due_ms / 1000)
        return due_s if look_s is None else min(due_s, look_s)

    @property
    def busy(self) -> int:
        return len(self._active)

    def active(self) -> list[Attempt]:
        return list(self._active.values())

    def wake(self) -> None:
        # A full pipe wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    def wait(self, timeout_s: float | None) -> Events:
        pause_s = self._bandwidth.wait_s() if self._bandwidth is not None else 0.0
        if pause_s > 0:
            # Sockets that are ready wait, and what they would bring waits with the sender.
            wait_s = pause_s if timeout_s is None else min(pause_s, timeout_s)
            alarm = select.poll()
            alarm.register(self._wake_reader, select.POLLIN)
            return alarm.poll(wait_s * 1000)
        asked_s = time.monotonic()
        # epoll's time-out is in seconds, poll's in milliseconds.
        events = self._poll.poll(None if timeout_s is None else timeout_s * _TIMEOUT_UNITS_PER_S)
        self._rounds.note(asked_s, time.monotonic())
        return events

    def take(self, events: Events) -> None:
        if self._bandwidth is not None:
            random.shuffle(events)  # The selector's order may be the same each time, and the last ones never served.
        for descriptor, mask in events:
            if descriptor == self._wake_reader:
                os.read(self._wake_reader, 4096)
                continue
            if self._bandwidth is not None and self._bandwidth.wait_s() > 0:
                continue
            # An error or a hang-up counts as both.
            action = (pycurl.CSELECT_IN if mask & ~select.POLLOUT else 0) | (
                pycurl.CSELECT_OUT if mask & ~select.POLLIN else 0
            )
            self._multi.socket_action(descriptor, action)

    def fire_timer(self) -> None:
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            self._look()

    def _look(self) -> None:
        """Make libcurl look at the requests that were sent since the last time."""
        if self._bandwidth is not None and self._bandwidth.wait_s() > 0:
            return
        for curl in self._active.keys() - self._looked_at:
            if curl.getinfo(pycurl.PRETRANSFER_TIME):
                self._looked_at.add(curl)
                self._multi.socket_action(curl.getinfo(pycurl.ACTIVESOCKET), 0)

    def begin(self, attempt: Attempt, left_s: float) -> None:
        curl = attempt.handle = self._free.pop() if self._free else self._new_handle()
        try:
            self._prepare(curl, attempt, max(1, int(left_s * 1000)))
            if not self._active:
                self._look_s = time.monotonic() + _LOOK_S
            self._active[curl] = attempt
            self._multi.add_handle(curl)
        except BaseException:
            self._active.pop(curl, None)
            self.rest(attempt)
            raise

    def ended(self) -> Iterator[tuple[Attempt, Exception | None]]:
        while True:
            left, succeeded, failed = self._multi.info_read()
            # What one of these brings about may have interrupted another of them meanwhile.
            for curl in succeeded:
                if curl in self._active:
                    yield self._take_out(curl), None
            for curl, number, text in failed:
                if curl in self._active:
                    attempt = self._take_out(curl)
                    yield attempt, curl_failure(attempt.operation, number, text)
            if not left:
                return

    def _take_out(self, curl: pycurl.Curl) -> Attempt:
        self._multi.remove_handle(curl)
        self._looked_at.discard(curl)
        return self._active.pop(curl)

    def interrupt(self, attempt: Attempt) -> None:
        self._take_out(attempt.handle)

    def rest(self, attempt: Attempt) -> None:
        """Bring the attempt's handle back to what a GET begins with."""
        curl, attempt.handle = attempt.handle, None
        if attempt.request.method == "GET":
            curl.setopt(pycurl.HEADERFUNCTION, _ignore)
            curl.setopt(pycurl.WRITEFUNCTION, _ignore)
        else:
            curl.reset()
            self._set_common(curl)
        self._free.append(curl)

    def sent_s(self, attempt: Attempt) -> float | None:
        # After name look-up, connection and TLS handshake; next to nothing on a connection that was there.
        after_s = attempt.handle.getinfo(pycurl.PRETRANSFER_TIME)
        return attempt.started_s + after_s if after_s else None

    def answered_s(self, attempt: Attempt) -> float | None:
        after_s = attempt.handle.getinfo(pycurl.STARTTRANSFER_TIME)
        return self._rounds.came_s(attempt.started_s + after_s) if after_s else None

    def received_bytes(self, attempt: Attempt) -> int:
        return int(attempt.handle.getinfo(pycurl.SIZE_DOWNLOAD_T))

    def record(self, attempt: Attempt, error: Exception | None, *, cut: bool = False) -> RequestRecord:
        curl, operation = attempt.handle, attempt.operation
        first_s = curl.getinfo(pycurl.STARTTRANSFER_TIME)
        return RequestRecord(
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
            hedge=attempt.hedge,
            cut=cut,
        )

    def close(self) -> None:
        for curl in self._active:
            self._multi.remove_handle(curl)
        self._active.clear()
        for curl in self._handles:
            curl.close()
        self._multi.close()
        if hasattr(self._poll, "close"):
            self._poll.close()

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
        setopt(pycurl.BUFFERSIZE, self._receive_bytes)
        setopt(pycurl.CONNECTTIMEOUT_MS, max(1, int(config.connect_timeout_s * 1000)))
        setopt(pycurl.LOW_SPEED_LIMIT, 1)
        setopt(pycurl.LOW_SPEED_TIME, self._stall_s)
        setopt(pycurl.CAINFO, self._certificates)

    def _prepare(self, curl: pycurl.Curl, attempt: Attempt, left_ms: int) -> None:
        request, setopt = attempt.request, curl.setopt
        if request.method != "GET":
            if request.method == "HEAD":
                setopt(pycurl.NOBODY, 1)
            elif request.body is not None:
                setopt(pycurl.UPLOAD, 1)
                setopt(pycurl.UPLOAD_BUFFERSIZE, self._send_bytes)
                setopt(pycurl.INFILESIZE_LARGE, len(request.body))
                body = Body((memoryview(request.body),)) if isinstance(request.body, bytes) else request.body
                read = body.reader()
                setopt(pycurl.READFUNCTION, read if self._bandwidth is None else _counted_reader(read, self._bandwidth))
                # No seek function: libcurl would repeat by itself a request that got no answer on a reused connection,
                # and hide that it may have been done twice. Without one it fails, and the operation judges.
            setopt(pycurl.CUSTOMREQUEST, request.method)
            if request.once:
                setopt(pycurl.FRESH_CONNECT, 1)
        setopt(pycurl.URL, request.url)
        if self._http_proxy is not None and request.url.startswith("http://"):
            setopt(pycurl.PROXY, self._http_proxy)
        if request.headers:
            setopt(pycurl.HTTPHEADER, request.headers)
        else:
            # An empty list would leave the headers of the handle's previous request in place, its range among them.
            curl.unsetopt(pycurl.HTTPHEADER)
        setopt(pycurl.TIMEOUT_MS, left_ms)
        setopt(pycurl.HEADERFUNCTION, attempt.lines.append)
        sink = attempt.operation.sink(attempt.lines)
        setopt(pycurl.WRITEFUNCTION, sink if self._bandwidth is None else _counted(sink, self._bandwidth))

    def _watch_socket(self, what: int, descriptor: int, _multi: object, _data: object) -> None:
        try:
            if what == pycurl.POLL_REMOVE:
                self._watched.remove(descriptor)
                self._poll.unregister(descriptor)
                return
            events = (select.POLLIN if what & pycurl.POLL_IN else 0) | (select.POLLOUT if what & pycurl.POLL_OUT else 0)
            if descriptor in self._watched:
                self._poll.modify(descriptor, events)
            else:
                self._poll.register(descriptor, events)
                self._watched.add(descriptor)
        except (KeyError, OSError, ValueError) as error:
            # libcurl may have closed the socket already; the kernel has forgotten it then.
            _log.debug("socket %d: %r", descriptor, error)


def _proxy_in_capitals() -> str | None:
    """The proxy that ``HTTP_PROXY`` names, which libcurl alone among clients reads in small letters only.

    Under a CGI server, which has ``REQUEST_METHOD``, it is a header that the client sent. *Source:* httpoxy,
    CVE-2016-5385; botocore and requests decide the same way, by ``urllib.request.getproxies``.
    """
    if "http_proxy" in os.environ or "REQUEST_METHOD" in os.environ:
        return None
    return os.environ.get("HTTP_PROXY") or None


def _close_pipe(reader: int, writer: int) -> None:
    os.close(reader)
    os.close(writer)


def _counted(sink: Sink, bandwidth: Bandwidth) -> Sink:
    """A sink that counts what it takes."""

    def take(chunk: bytes) -> int | None:
        bandwidth.spend(len(chunk))
        return sink(chunk)

    return take


def _counted_reader(
    read: Callable[[int], bytes | memoryview], bandwidth: Bandwidth
) -> Callable[[int], bytes | memoryview]:
    """A body's reader that counts what it gives."""

    def give(most_bytes: int) -> bytes | memoryview:
        piece = read(most_bytes)
        bandwidth.spend(len(piece))
        return piece

    return give


def _ignore(piece: bytes) -> None:
    """Stand in for the functions of a handle at rest, so that it keeps nobody's memory alive."""
