"""A client of bare sockets: one thread, one epoll, nothing between a measurement and the kernel.

It runs in a process of its own, so that neither the server's processor nor an interpreter lock is shared with it.
"""

import contextlib
import operator
import resource
import select
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_RECEIVE_BYTES = 1 << 20
_SEND_BYTES = 256 << 10
_GIVE_UP_S = 60.0
"""Silence after which a run has failed. *Source*: ours, twice the longest answer of a run."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What to send: `requests` in all over `connections`, or as many as go in `seconds`.

    Args:
        endpoint: scheme, host and port.
        paths: request targets, taken in turn.
        connections: open at the same time; each has one request under way at most.
        requests: stop after so many, each answered whole; None where `seconds` decides.
        seconds: begin no request after so many seconds.
        per_s: requests that begin a second in all, evenly spaced; None as fast as answers come.
        spread_s: over how many seconds the connections begin, evenly spaced; all at once they would stay in step, and
            meet on a link that they would else have one after the other.
        method: of all requests.
        range_bytes: ask for the first so many bytes; None for the whole.
        body_bytes: length of the body sent, zeros.
        ca_certificate: verifies the server, for https.
    """

    endpoint: str
    paths: tuple[str, ...]
    connections: int
    requests: int | None = None
    seconds: float | None = None
    per_s: float | None = None
    spread_s: float = 0.0
    method: str = "GET"
    range_bytes: int | None = None
    body_bytes: int = 0
    ca_certificate: str | None = None


@dataclass(kw_only=True)
class Outcome:
    """What came of a load: for each answered request, in the order they ended, when it began, in seconds since the
    load did, and the seconds from there to the first and to the last byte of its answer."""

    begun_s: list[float] = field(default_factory=list)
    first_byte_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    received_bytes: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def requests_per_s(self) -> float:
        """Answers a second."""
        return len(self.total_s) / self.elapsed_s

    def answers_per_s(self, start_s: float, stop_s: float) -> float:
        """Returns the answers a second that ended between two times since the load began."""
        ended_s = map(operator.add, self.begun_s, self.total_s)
        return sum(start_s <= at_s < stop_s for at_s in ended_s) / (stop_s - start_s)


class _Connection:
    """One connection and the request under way on it."""

    def __init__(self, load: Load, number: int) -> None:
        self._load = load
        address = urlsplit(load.endpoint)
        assert address.hostname is not None and address.port is not None
        plain = socket.create_connection((address.hostname, address.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain
        if address.scheme == "https":
            context = ssl.create_default_context(cafile=load.ca_certificate)
            self.socket = context.wrap_socket(plain, server_hostname=address.hostname)
        self.socket.setblocking(False)
        self._host = address.netloc
        self._next_path = number
        self._head = b""
        self._expected_bytes: int | None = None
        self._body_bytes = 0
        self._unsent = memoryview(b"")
        self._left_bytes = 0
        self.begun_s = self.first_byte_s = 0.0

    @property
    def sending(self) -> bool:
        """Whether a part of the request has not left."""
        return bool(self._unsent) or self._left_bytes > 0

    def begin(self, zeros: memoryview) -> None:
        """Sends a request, or as much as goes."""
        load = self._load
        path = load.paths[self._next_path % len(load.paths)]
        self._next_path += load.connections
        lines = [f"{load.method} {path} HTTP/1.1", f"Host: {self._host}"]
        if load.range_bytes is not None:
            lines.append(f"Range: bytes=0-{load.range_bytes - 1}")
        if load.body_bytes:
            lines.append(f"Content-Length: {load.body_bytes}")
        self._head, self._expected_bytes, self._body_bytes = b"", None, 0
        self._unsent, self._left_bytes = memoryview("\r\n".join([*lines, "", ""]).encode()), load.body_bytes
        self.first_byte_s = 0.0
        self.begun_s = time.perf_counter()
        self.send(zeros)

    def send(self, zeros: memoryview) -> None:
        """Sends what is left of the request, as much as goes."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantWriteError):
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            while self._left_bytes:
                self._left_bytes -= self.socket.send(zeros[: min(self._left_bytes, len(zeros))])

    def receive(self, buffer: memoryview) -> bool:
        """Takes what has arrived; returns whether the answer is whole."""
        while True:
            try:
                size_bytes = self.socket.recv_into(buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
            if not self.first_byte_s:
                self.first_byte_s = time.perf_counter()
            if not size_bytes:
                raise ConnectionError(f"the server closed the connection after {self._body_bytes} bytes of a body")
            if self._expected_bytes is None:
                self._head += bytes(buffer[:size_bytes])
                if not self._parse_head():
                    continue
            else:
                self._body_bytes += size_bytes
            if self._body_bytes == self._expected_bytes:
                return True
            if not isinstance(self.socket, ssl.SSLSocket):
                return False  # The rest, if any, is reported again, after the others had their turn.

    def _parse_head(self) -> bool:
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end:
            return False
        status, *lines = head.decode("latin-1").split("\r\n")
        if not status.startswith("HTTP/1.1 2"):
            raise ConnectionError(f"{self._load.method} {self._load.paths[0]} was answered {status}: {rest[:500]!r}")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._expected_bytes = 0 if self._load.method == "HEAD" else int(headers.get("content-length", 0))
        self._body_bytes = len(rest)
        return True

    @property
    def received_bytes(self) -> int:
        """Bytes of the answer's body so far."""
        return self._body_bytes


def run_load(load: Load) -> Outcome:
    """Sends a load from this process and returns what came of it; raises ConnectionError for any answer but 2xx."""
    with _connections(load) as connections:
        return _Run(load, connections).run()


@contextlib.contextmanager
def _connections(load: Load) -> Iterator[list[_Connection]]:
    with contextlib.ExitStack() as stack:
        connections = [_Connection(load, number) for number in range(load.connections)]
        for connection in connections:
            stack.enter_context(connection.socket)
        yield connections


class _Run:
    def __init__(self, load: Load, connections: list[_Connection]) -> None:
        self._load = load
        self._by_fd = {connection.socket.fileno(): connection for connection in connections}
        self._epoll = select.epoll()
        self._idle = list(connections)
        self._busy = 0
        self._begun = 0
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._zeros = memoryview(bytes(_SEND_BYTES))
        self._start_s = 0.0
        self._outcome = Outcome()

    def run(self) -> Outcome:
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._start_s = time.perf_counter()
        with contextlib.closing(self._epoll):
            while self._begin_what_is_due() or self._busy:
                self._turn()
        ended = resource.getrusage(resource.RUSAGE_SELF)
        self._outcome.elapsed_s = time.perf_counter() - self._start_s
        self._outcome.cpu_s = ended.ru_utime + ended.ru_stime - usage.ru_utime - usage.ru_stime
        return self._outcome

    def _begin_what_is_due(self) -> bool:
        """Begins requests on idle connections; returns whether more will come."""
        while not self._over():
            if not self._idle:
                return True
            if time.perf_counter() < self._next_s():
                return True
            connection = self._idle.pop(0)
            self._begun += 1
            self._busy += 1
            connection.begin(self._zeros)
            if connection.sending:
                self._epoll.modify(connection.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)
        return False

    def _next_s(self) -> float:
        """Returns when the next request may begin, at the soonest."""
        load = self._load
        after_s = self._begun / load.per_s if load.per_s is not None else 0.0
        if self._begun < load.connections:
            after_s = max(after_s, self._begun * load.spread_s / load.connections)
        return self._start_s + after_s

    def _over(self) -> bool:
        load = self._load
        if load.requests is not None and self._begun >= load.requests:
            return True
        return load.seconds is not None and time.perf_counter() - self._start_s >= load.seconds

    def _turn(self) -> None:
        """Waits for events and handles them."""
        timeout_s = _GIVE_UP_S
        if self._idle and not self._over():
            timeout_s = max(0.0, self._next_s() - time.perf_counter())
        events = self._epoll.poll(timeout_s)
        if not events and timeout_s == _GIVE_UP_S:
            raise TimeoutError(f"{self._busy} requests had no answer for {_GIVE_UP_S} s")
        for fd, event in events:
            connection = self._by_fd[fd]
            if event & select.EPOLLOUT:
                connection.send(self._zeros)
                if not connection.sending:
                    self._epoll.modify(fd, select.EPOLLIN)
            if event & ~select.EPOLLOUT and connection.receive(self._buffer):
                self._ended(connection)

    def _ended(self, connection: _Connection) -> None:
        now_s, outcome = time.perf_counter(), self._outcome
        outcome.begun_s.append(connection.begun_s - self._start_s)
        outcome.first_byte_s.append(connection.first_byte_s - connection.begun_s)
        outcome.total_s.append(now_s - connection.begun_s)
        outcome.received_bytes += connection.received_bytes
        self._busy -= 1
        self._idle.append(connection)
