"""A bare libcurl loop: no retries, no checks but of the status, only the bytes. The ceiling, not a contestant."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import certifi
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from bucketbench.clients.boto3 import list_keys, make_client
from bucketbench.clients.objects import BatchedObjects, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["Raw", "RawIterable", "TransferLoop"]

_RECEIVE_BUFFER_BYTES: Final = 512 << 10  # libcurl's largest; its default is 16 KiB
_SELECT_TIMEOUT_S: Final = 1.0
_EXPIRY_S: Final = 12 * 3600  # of presigned addresses; a job is far shorter


class TransferLoop:
    """Fetches URLs over one pool of connections, several at once. For use by one thread of one process.

    Args:
        transfers: how many at once.
        ca_bundle: PEM file of the certificates to trust; None means certifi's.
    """

    def __init__(self, *, transfers: int, ca_bundle: str | None) -> None:
        import pycurl

        self._curl = pycurl
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, transfers)
        self._idle = [self._handle(ca_bundle) for _ in range(transfers)]
        self._bodies: dict[Any, tuple[int, list[bytes]]] = {}

    def contents(self, urls: Iterable[str]) -> Iterator[tuple[int, bytes]]:
        """Yield the position of each URL and its content, in the order in which they arrive.

        Raises:
            OSError: a transfer failed, or was answered other than 200. There is no second attempt.
        """
        waiting = deque(enumerate(urls))
        try:
            while waiting or self._bodies:
                while waiting and self._idle:
                    self._begin(*waiting.popleft())
                self._multi.perform()
                ended = list(self._ended())
                yield from ended
                if not ended:
                    self._multi.select(_SELECT_TIMEOUT_S)
        finally:
            for handle in list(self._bodies):
                self._end(handle)

    def _handle(self, ca_bundle: str | None) -> Any:
        handle = self._curl.Curl()
        handle.setopt(self._curl.BUFFERSIZE, _RECEIVE_BUFFER_BYTES)
        handle.setopt(self._curl.TCP_NODELAY, 1)
        handle.setopt(self._curl.NOSIGNAL, 1)
        handle.setopt(self._curl.PATH_AS_IS, 1)  # a segment of a key may be ".."
        handle.setopt(self._curl.HTTP_VERSION, self._curl.CURL_HTTP_VERSION_1_1)
        # pycurl's wheels look for certificates where the machine that built them had some.
        handle.setopt(self._curl.CAINFO, ca_bundle or certifi.where())
        return handle

    def _begin(self, position: int, url: str) -> None:
        handle = self._idle.pop()
        body: list[bytes] = []
        handle.setopt(self._curl.URL, url)
        handle.setopt(self._curl.WRITEFUNCTION, body.append)
        self._bodies[handle] = (position, body)
        self._multi.add_handle(handle)

    def _end(self, handle: Any) -> tuple[int, bytes]:
        self._multi.remove_handle(handle)
        self._idle.append(handle)
        position, body = self._bodies.pop(handle)
        return position, b"".join(body)

    def _ended(self) -> Iterator[tuple[int, bytes]]:
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read()
            for _, code, message in failed:
                raise OSError(f"a transfer failed: {message} (libcurl error {code})")
            for handle in succeeded:
                status = handle.getinfo(self._curl.RESPONSE_CODE)
                if status != 200:
                    _, body = self._end(handle)
                    raise OSError(f"a GET was answered {status}: {body[:200]!r}")
                yield self._end(handle)


class Raw:
    """The objects of a batch over a bare libcurl loop.

    Addresses are presigned when the data set is made, or plain where the target is anonymous, so that no signing falls
    into the fetch. The listing is boto3's.

    Args:
        transfers: how many at once in each worker.
    """

    def __init__(self, *, transfers: int) -> None:
        self._transfers = transfers

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        return _ObjectsAtOnce(target, _addresses(target), transfers=self._transfers)


class RawIterable:
    """A worker's whole share over a bare libcurl loop that never drains, in whatever order contents arrive.

    Arguments as of :class:`Raw`.
    """

    def __init__(self, *, transfers: int) -> None:
        self._transfers = transfers

    def dataset(self, target: Target) -> IterableDataset[Sample]:
        """An iterable data set over every object of the target, sharded over workers."""
        return _Stream(target, _addresses(target), transfers=self._transfers)


def _addresses(target: Target) -> dict[str, str]:
    """The URL of every object of the target, by key."""
    client = make_client(target)
    return {
        key: client.generate_presigned_url(
            "get_object", Params={"Bucket": target.bucket, "Key": key}, ExpiresIn=_EXPIRY_S
        )
        for key in list_keys(client, target)
    }


class _ObjectsAtOnce(BatchedObjects):
    def __init__(self, target: Target, addresses: dict[str, str], *, transfers: int) -> None:
        super().__init__(target.prefix, tuple(addresses))
        self._addresses = addresses
        self._loop = ProcessLocal(partial(TransferLoop, transfers=transfers, ca_bundle=target.ca_bundle))

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        found = dict(self._loop.get().contents(self._addresses[key] for key in keys))
        return [found[position] for position in range(len(keys))]


class _Stream(IterableDataset[Sample]):
    def __init__(self, target: Target, addresses: dict[str, str], *, transfers: int) -> None:
        self._prefix = target.prefix
        self._addresses = addresses
        self._loop = ProcessLocal(partial(TransferLoop, transfers=transfers, ca_bundle=target.ca_bundle))

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        share = slice(None) if worker is None else slice(worker.id, None, worker.num_workers)
        keys = list(self._addresses)[share]
        for position, content in self._loop.get().contents(self._addresses[key] for key in keys):
            yield keys[position].removeprefix(self._prefix), content
