"""google-cloud-storage, Google's SDK: one call an object, a batch's calls on threads, and its transfer manager."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsOneByOne, ObjectsOnThreads, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target
from bucketbench.clients.trust import trust_by_environment

__all__ = ["GoogleStorage", "GoogleStorageThreads", "GoogleStorageTransfer", "list_sizes", "make_client"]


def make_client(target: Target, *, connections: int | None = None) -> Any:
    """A google-cloud-storage client for a target, with the library's defaults for all that the target leaves open.

    Args:
        target: where the data lie. Reading takes no project, so none is looked for.
        connections: how many connections are kept open; None for the default of requests, 10.
    """
    # It speaks by requests, which reads this one.
    trust_by_environment(target, "REQUESTS_CA_BUNDLE")
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project=None,
        credentials=AnonymousCredentials() if target.anonymous else None,  # type: ignore[no-untyped-call]  # google-auth's
        client_options=None if target.endpoint is None else {"api_endpoint": target.endpoint},
    )
    if connections is not None:
        from requests.adapters import HTTPAdapter

        # Source: googleapis/python-storage issue 253: the library has no setting for its pool, and this is what its
        # maintainers tell users of threads to do.
        for scheme in ("http://", "https://"):
            client._http.mount(scheme, HTTPAdapter(pool_connections=connections, pool_maxsize=connections))
    return client


def list_sizes(client: Any, target: Target) -> dict[str, int]:
    """Every key under the target's prefix with its size in bytes, by the library's own ``list_blobs``."""
    return {blob.name: blob.size for blob in client.list_blobs(target.bucket, prefix=target.prefix)}


class GoogleStorage:
    """``download_as_bytes`` in ``__getitem__``, one after another in each worker, every setting at its default."""

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target."""
        return ObjectsOneByOne(
            target, list(list_sizes(make_client(target), target)), partial(make_client, target), _content
        )


class GoogleStorageThreads:
    """``download_as_bytes`` for a whole batch at once, on a pool of threads, with as many connections.

    Args:
        threads: threads and connections of each worker.
    """

    def __init__(self, *, threads: int) -> None:
        self._threads = threads

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        make = partial(make_client, target, connections=self._threads)
        keys = list(list_sizes(make_client(target), target))
        return ObjectsOnThreads(target, keys, make, _content, threads=self._threads)


class GoogleStorageTransfer:
    """``transfer_manager.download_many`` of a whole batch, on its threads: what the library has for many objects.

    *Source:* google-cloud-storage, ``transfer_manager.download_many``: its processes, the default, download into files
    only; its threads take a buffer. It makes its threads anew in each call, ``max_workers`` of them, 8 by default.

    Args:
        max_workers: threads, and connections of each worker.
    """

    def __init__(self, *, max_workers: int) -> None:
        self._max_workers = max_workers

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        return _ObjectsByManager(target, list(list_sizes(make_client(target), target)), max_workers=self._max_workers)


def _content(client: Any, bucket: str, key: str) -> bytes:
    content: bytes = client.bucket(bucket).blob(key).download_as_bytes()
    return content


class _ObjectsByManager(BatchedObjects):
    def __init__(self, target: Target, keys: Sequence[str], *, max_workers: int) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._max_workers = max_workers
        self._client = ProcessLocal(partial(make_client, target, connections=max_workers))

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        from google.cloud.storage import transfer_manager

        bucket = self._client.get().bucket(self._bucket)
        pairs = [(bucket.blob(key), io.BytesIO()) for key in keys]
        transfer_manager.download_many(
            pairs, worker_type=transfer_manager.THREAD, max_workers=self._max_workers, raise_exception=True
        )
        return [buffer.getvalue() for _, buffer in pairs]
