"""boto3, the AWS SDK: one call an object, as users write it, and with a batch's calls on threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsByIndex, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["Boto3", "Boto3Threads", "list_keys", "make_client"]


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
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=target.bucket, Prefix=target.prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", ())]


class Boto3:
    """``get_object`` in ``__getitem__``, one after another in each worker, every setting at its default."""

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target."""
        return _Objects(target, list_keys(make_client(target), target))


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
        return _ObjectsOnThreads(target, list_keys(make_client(target), target), threads=self._threads)


def _content(client: Any, bucket: str, key: str) -> bytes:
    body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


class _Objects(ObjectsByIndex):
    def __init__(self, target: Target, keys: Sequence[str]) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._client = ProcessLocal(partial(make_client, target))

    def read(self, key: str) -> bytes:
        return _content(self._client.get(), self._bucket, key)


class _ObjectsOnThreads(BatchedObjects):
    def __init__(self, target: Target, keys: Sequence[str], *, threads: int) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._client = ProcessLocal(partial(make_client, target, max_pool_connections=threads))
        self._threads = ProcessLocal(partial(ThreadPoolExecutor, threads))

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        client = self._client.get()
        return list(self._threads.get().map(partial(_content, client, self._bucket), keys))
