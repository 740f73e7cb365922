"""What the testbed counted while a job was measured, by its admin route."""

from __future__ import annotations

import json
import urllib.request
from types import TracebackType
from typing import Final, Self

from bucketbench.statistics import ServerCounts

__all__ = ["ServerDifference", "read_server"]

_LISTING: Final = "list_objects"  # what the names of the operations that list objects begin with, of every dialect

_TIMEOUT_S: Final = 30.0  # an admin request takes a millisecond; this only turns a hang into an error


def read_server(admin_url: str) -> ServerCounts:
    """The testbed's counts since it started.

    Args:
        admin_url: the admin route, as the testbed printed it.

    Raises:
        OSError: the testbed does not answer.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is never proxied
    with opener.open(f"{admin_url.rstrip('/')}/counts", timeout=_TIMEOUT_S) as answer:
        counts = json.load(answer)
    return ServerCounts(
        requests=sum(counts["requests"].values()),
        bytes_out=counts["bytes_out"],
        faults=sum(counts["faults"].values()),
        warnings=counts["network"].get("warnings", 0),
        requests_s=counts["requests_s"],
        bytes_in=counts["bytes_in"],
        listings=sum(number for name, number in counts["requests"].items() if name.startswith(_LISTING)),
        requests_by_name=counts["requests"],
        asked_s=counts["network"].get("asked_s", 0.0),
        lost_s=counts["network"].get("lost_s", 0.0),
        processor_s=counts["processor_s"],
    )


class ServerDifference:
    """A block in which the testbed's counts are taken at the start and at the end.

    The testbed serves one sweep, and a sweep one job at a time, so that the difference is the job's own. A client that
    reads ahead beyond the end of an epoch may have requests counted that it began within it and finished after it.
    """

    def __init__(self, admin_url: str | None) -> None:
        """Ask ``admin_url``; None, for a service that tells nothing, leaves ``counts`` at None."""
        self._admin_url = admin_url
        self._before: ServerCounts | None = None
        self.counts: ServerCounts | None = None

    def __enter__(self) -> Self:
        self._before = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None or self._before is None:
            return
        after = self._read()
        if after is not None:
            self.counts = after.since(self._before)

    def _read(self) -> ServerCounts | None:
        return None if self._admin_url is None else read_server(self._admin_url)
