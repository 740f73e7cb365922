"""A bare libcurl loop: no retries, no checks but of the status, only the bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import certifi

__all__ = ["Fetch", "Send", "TransferLoop"]

_RECEIVE_BUFFER_BYTES: Final = 512 << 10  # libcurl's largest; its default is 16 KiB
_SEND_BUFFER_BYTES: Final = 512 << 10  # its default is 64 KiB
_SELECT_TIMEOUT_S: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetch:
    """One GET.

    Args:
        url: of what.
        byte_range: ``start-last`` for a part of it, answered 206; None for all of it, answered 200.
        write: called with each piece as it comes, in order.
    """

    url: str
    byte_range: str | None = None
    write: Callable[[bytes], object]

    @property
    def expected(self) -> int:
        """The status of the answer."""
        return 200 if self.byte_range is None else 206


@dataclass(frozen=True, kw_only=True, slots=True)
class Send:
    """One request that changes something.

    Args:
        method: of HTTP.
        url: of what.
        size_bytes: of its body.
        read: called with a number of bytes, returns that many of the body, or fewer.
        write: called with each piece of the answer.
        header: called with each line of the answer's header.
        expected: the status of the answer.
    """

    method: str
    url: str
    size_bytes: int
    read: Callable[[int], bytes]
    write: Callable[[bytes], object]
    header: Callable[[bytes], object]
    expected: int = 200


class TransferLoop:
    """Fetches and sends over one pool of connections, several at once. For use by one thread of one process.

    Args:
        transfers: how many at once.
        ca_bundle: PEM file of the certificates to trust; None means certifi's.
        headers: lines that each request gets.
    """

    def __init__(self, *, transfers: int, ca_bundle: str | None, headers: Sequence[str] = ()) -> None:
        import pycurl

        self._curl = pycurl
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, transfers)
        self._idle = [self._handle(ca_bundle, headers) for _ in range(transfers)]
        self._running: dict[Any, tuple[int, Fetch | Send]] = {}

    def contents(self, urls: Iterable[str]) -> Iterator[tuple[int, bytes]]:
        """Yield the position of each URL and its content, in the order in which they arrive.

        Raises:
            OSError: a transfer failed, or was answered other than 200. There is no second attempt.
        """
        bodies: dict[int, list[bytes]] = {}

        def fetches() -> Iterator[Fetch]:
            for position, url in enumerate(urls):
                bodies[position] = []
                yield Fetch(url=url, write=bodies[position].append)

        for position in self.run(fetches()):
            yield position, b"".join(bodies.pop(position))

    def run(self, fetches: Iterable[Fetch | Send]) -> Iterator[int]:
        """Make the requests and yield the position of each when it is whole; take one when a connection is free for it.

        Raises:
            OSError: as of ``contents``.
        """
        waiting = enumerate(fetches)
        following = next(waiting, None)
        try:
            while following is not None or self._running:
                while following is not None and self._idle:
                    self._begin(*following)
                    following = next(waiting, None)
                self._multi.perform()
                ended = list(self._ended())
                yield from ended
                if not ended:
                    self._multi.select(_SELECT_TIMEOUT_S)
        finally:
            for handle in list(self._running):
                self._end(handle)

    def _handle(self, ca_bundle: str | None, headers: Sequence[str]) -> Any:
        handle = self._curl.Curl()
        handle.setopt(self._curl.BUFFERSIZE, _RECEIVE_BUFFER_BYTES)
        handle.setopt(self._curl.TCP_NODELAY, 1)
        handle.setopt(self._curl.NOSIGNAL, 1)
        handle.setopt(self._curl.PATH_AS_IS, 1)  # a segment of a key may be ".."
        handle.setopt(self._curl.HTTP_VERSION, self._curl.CURL_HTTP_VERSION_1_1)
        # pycurl's wheels look for certificates where the machine that built them had some.
        # As bytes, since pycurl takes no text but ASCII.
        handle.setopt(self._curl.CAINFO, os.fsencode(ca_bundle or certifi.where()))
        handle.setopt(self._curl.UPLOAD_BUFFERSIZE, _SEND_BUFFER_BYTES)
        # A body is sent at once, without asking whether it is welcome.
        handle.setopt(self._curl.HTTPHEADER, [*headers, "Expect:"])
        return handle

    def _begin(self, position: int, fetch: Fetch | Send) -> None:
        handle = self._idle.pop()
        handle.setopt(self._curl.URL, fetch.url)
        handle.setopt(self._curl.WRITEFUNCTION, fetch.write)
        if isinstance(fetch, Send):
            handle.unsetopt(self._curl.RANGE)
            handle.setopt(self._curl.UPLOAD, 1)
            handle.setopt(self._curl.CUSTOMREQUEST, fetch.method)
            handle.setopt(self._curl.INFILESIZE_LARGE, fetch.size_bytes)
            handle.setopt(self._curl.READFUNCTION, fetch.read)
            handle.setopt(self._curl.HEADERFUNCTION, fetch.header)
        else:
            handle.setopt(self._curl.HTTPGET, 1)
            handle.unsetopt(self._curl.CUSTOMREQUEST)
            handle.unsetopt(self._curl.HEADERFUNCTION)
            if fetch.byte_range is None:
                handle.unsetopt(self._curl.RANGE)
            else:
                handle.setopt(self._curl.RANGE, fetch.byte_range)
        self._running[handle] = (position, fetch)
        self._multi.add_handle(handle)

    def _end(self, handle: Any) -> int:
        self._multi.remove_handle(handle)
        self._idle.append(handle)
        position, _ = self._running.pop(handle)
        return position

    def _ended(self) -> Iterator[int]:
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read()
            for _, code, message in failed:
                raise OSError(f"a transfer failed: {message} (libcurl error {code})")
            for handle in succeeded:
                _, fetch = self._running[handle]
                status = handle.getinfo(self._curl.RESPONSE_CODE)
                if status != fetch.expected:
                    self._end(handle)
                    method = fetch.method if isinstance(fetch, Send) else "GET"
                    raise OSError(f"a {method} was answered {status}, expected {fetch.expected}")
                yield self._end(handle)
