"""Counts of what clients really sent and received."""

import time
from collections import Counter

from buckettestbed.network.health import Health

__all__ = ["Counters"]


class Counters:
    """Requests by operation, errors by status, faults by kind, bytes of bodies in and out, connections, and how many
    requests are being answered at once. One event loop owns it.

    Bytes are those of bodies on the wire: an aws-chunked body counts with its framing, headers do not count.
    """

    def __init__(self) -> None:
        self.open_connections = 0
        self.open_requests = 0
        self.network: Health | None = None
        self.reset()

    def reset(self) -> None:
        """Starts all counts again, save for the connections and requests that are open."""
        self.requests: Counter[str] = Counter()
        self.errors: Counter[int] = Counter()
        self.faults: Counter[str] = Counter()
        self.bytes_in = 0
        self.bytes_out = 0
        self.disconnected = 0
        self.opened_connections = 0
        self._requests_s = 0.0
        self._summed_s = time.monotonic()
        if self.network is not None:
            self.network.reset()

    def connection_opened(self) -> None:
        """Counts a connection."""
        self.open_connections += 1
        self.opened_connections += 1

    def connection_closed(self) -> None:
        """Counts its end."""
        self.open_connections -= 1

    def request_began(self) -> None:
        """Counts a request as being answered, from its headers on."""
        self._sum_requests()
        self.open_requests += 1

    def request_ended(self) -> None:
        """Counts the end of its answer, whole or not."""
        self._sum_requests()
        self.open_requests -= 1

    def _sum_requests(self) -> None:
        now_s = time.monotonic()
        self._requests_s += self.open_requests * (now_s - self._summed_s)
        self._summed_s = now_s

    def snapshot(self) -> dict[str, object]:
        """Returns all counts as plain values.

        `requests`, `errors` and `faults` are by name, by status and by kind; `disconnected` counts requests whose
        client went away before the answer was whole; `connections` has those opened since the reset and those open now;
        `requests_s` are the seconds that requests took, all together, up to now: over the seconds that passed, it is
        how many were being answered at once; `processor_s` are those that this process has computed for, since it
        began;
        `network` says how well the network model is kept, see `Health.snapshot`, and is empty where it is off.
        """
        self._sum_requests()
        return {
            "requests": dict(self.requests),
            "requests_s": self._requests_s,
            "processor_s": time.process_time(),
            "errors": {str(status): number for status, number in self.errors.items()},
            "faults": dict(self.faults),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "disconnected": self.disconnected,
            "connections": {"opened": self.opened_connections, "open": self.open_connections},
            "network": {} if self.network is None else self.network.snapshot(),
        }
