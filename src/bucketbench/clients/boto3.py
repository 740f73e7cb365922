"""boto3, the AWS SDK: one call an object, as users write it; a batch's calls on threads; its transfer manager."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsOneByOne, ObjectsOnThreads, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["Boto3", "Boto3Threads", "Boto3Transfer", "list_keys", "make_client"]


def make_client(target: Target, *, max_pool_connections: int = 10) -> Any:
    """A boto3 client for a target, with boto3's defaults for all that the target leaves open."""
    import boto3.session
    from botocore import UNSIGNED
    from botocore.config import Config

    settings: dict[str, Any] = {"max_pool_connections": max_pool_connections}
    if target.path_style:
        settings["s3"] = {"addressing_style": "path"}
    if target.anonymous:
        settings["signature_version"] = UNSIGNED
    # A session of its own: boto3's default one is shared between threads, and is not safe for that.
    return boto3.session.Session().client(
        "s3",
        endpoint_url=target.endpoint,
        region_name=target.region,
        verify=target.ca_bundle,
        config=Config(**settings),
    )


def list_keys(client: Any, target: Target) -> list[str]:
    """Every key under the target's prefix, by boto3's own paginator."""
    return list(_listed(client, target))


def _listed(client: Any, target: Target) -> dict[str, tuple[int, str]]:
    """Every key likewise, with size in bytes and ETag."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=target.bucket, Prefix=target.prefix)
    return {item["Key"]: (item["Size"], item["ETag"]) for page in pages for item in page.get("Contents", ())}


class Boto3:
    """``get_object`` in ``__getitem__``, one after another in each worker, every setting at its default."""

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target."""
        return ObjectsOneByOne(target, list_keys(make_client(target), target), partial(make_client, target), _content)


class Boto3Threads:
    """``get_object`` for a whole batch at once, on a pool of threads, with as many connections.

    *Source:* boto3, "Configuration" (``max_pool_connections``, default 10) and "Multithreading": a client may be shared
    between threads.

    Args:
        threads: threads and connections of each worker.
    """

    def __init__(self, *, threads: int) -> None:
        self._threads = threads

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        make = partial(make_client, target, max_pool_connections=self._threads)
        keys = list_keys(make_client(target), target)
        return ObjectsOnThreads(target, keys, make, _content, threads=self._threads)


class Boto3Transfer:
    """boto3's transfer manager for a whole batch: objects above a threshold are read in ranges, on its threads.

    *Source:* boto3, "File transfer configuration": ``max_concurrency`` 10 and ``multipart_chunksize`` and
    ``multipart_threshold`` 8 MiB by default. It asks for each object's size before it reads it, by a HEAD, unless a
    subscriber says it: s3transfer, ``BaseSubscriber.on_queued`` and ``TransferMeta.provide_transfer_size``.

    Args:
        max_concurrency: threads and connections of each worker.
        multipart_chunksize: bytes of a range, and the size above which an object is split.
        known_sizes: whether it is told the size and the ETag that the listing had.
    """

    def __init__(self, *, max_concurrency: int, multipart_chunksize: int, known_sizes: bool = False) -> None:
        self._max_concurrency = max_concurrency
        self._multipart_chunksize = multipart_chunksize
        self._known_sizes = known_sizes

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        make = partial(
            _transfer_manager,
            target,
            max_concurrency=self._max_concurrency,
            multipart_chunksize=self._multipart_chunksize,
        )
        listed = _listed(make_client(target), target)
        return _ObjectsByTransfer(target, tuple(listed), make, known=listed if self._known_sizes else {})


def _transfer_manager(target: Target, *, max_concurrency: int, multipart_chunksize: int) -> Any:
    from boto3.s3.transfer import TransferConfig, create_transfer_manager

    config = TransferConfig(
        max_concurrency=max_concurrency,
        multipart_chunksize=multipart_chunksize,
        multipart_threshold=multipart_chunksize,
    )
    return create_transfer_manager(make_client(target, max_pool_connections=max_concurrency), config)


def _content(client: Any, bucket: str, key: str) -> bytes:
    body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


class _ObjectsByTransfer(BatchedObjects):
    def __init__(
        self, target: Target, keys: Sequence[str], make: partial[Any], *, known: Mapping[str, tuple[int, str]]
    ) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._manager = ProcessLocal(make)
        self._known = known

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        # One manager for all calls, as `download_fileobj` would make one for each, with threads of its own.
        manager = self._manager.get()
        buffers = [io.BytesIO() for _ in keys]
        transfers = [
            manager.download(self._bucket, key, buffer, subscribers=self._told(key))
            for key, buffer in zip(keys, buffers, strict=True)
        ]
        for transfer in transfers:
            transfer.result()
        return [buffer.getvalue() for buffer in buffers]

    def _told(self, key: str) -> list[Any]:
        """What tells the manager what the listing had of an object."""
        if key not in self._known:
            return []
        from s3transfer.subscribers import BaseSubscriber

        size_bytes, etag = self._known[key]

        class Known(BaseSubscriber):
            def on_queued(self, future: Any, **_: Any) -> None:
                future.meta.provide_transfer_size(size_bytes)
                future.meta.provide_object_etag(etag)

        return [Known()]
