"""obstore, Rust's object_store for Python: a plain get an object, and a batch's gets through its asynchronous calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsByIndex, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["Obstore", "ObstoreAsync", "list_keys", "make_store"]


def make_store(target: Target) -> Any:
    """An obstore store for a target; credentials come from the environment, as obstore reads it."""
    from obstore.store import S3Store

    config: dict[str, Any] = {}
    if target.endpoint is not None:
        config["endpoint"] = target.endpoint
        if not target.path_style:
            # Source: object_store, AmazonS3Builder: with virtual-hosted style the endpoint has to name the bucket.
            service = urlsplit(target.endpoint)
            config["endpoint"] = f"{service.scheme}://{target.bucket}.{service.netloc}"
            config["virtual_hosted_style_request"] = True
    if target.region is not None:
        config["region"] = target.region
    if target.anonymous:
        config["skip_signature"] = True
    client: dict[str, Any] = {}
    if target.endpoint is not None and target.endpoint.startswith("http://"):
        client["allow_http"] = True
    if target.ca_bundle is not None:
        client["root_certificate"] = Path(target.ca_bundle).read_bytes()
    return S3Store(target.bucket, config=config, client_options=client)  # type: ignore[arg-type]  # built key by key


def list_keys(store: Any, target: Target) -> list[str]:
    """Every key under the target's prefix; obstore takes a prefix for whole path segments."""
    # The chunk is how many entries come at once from Rust; the requests are the same.
    return [item["path"] for chunk in store.list(target.prefix, chunk_size=1000) for item in chunk]


class Obstore:
    """``get(...).bytes()`` in ``__getitem__``, one after another in each worker, every setting at its default.

    The content stays in obstore's own buffer, which is bytes-like, so that no copy is charged to it.
    """

    # One runtime a process, whose threads a fork does not copy: a forked worker hangs in its first call.
    fork_safe = False

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target."""
        return _Objects(target, list_keys(make_store(target), target))


class ObstoreAsync:
    """``get_async`` for a whole batch at once: the concurrency that obstore's documentation leads with.

    *Source:* obstore, "Performance" and "Concurrency": its asynchronous API, with ``asyncio.gather``.
    """

    fork_safe = False

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        return _ObjectsAtOnce(target, list_keys(make_store(target), target))


class _Objects(ObjectsByIndex):
    def __init__(self, target: Target, keys: Sequence[str]) -> None:
        super().__init__(target.prefix, keys)
        self._store = ProcessLocal(partial(make_store, target))

    def read(self, key: str) -> Any:
        return self._store.get().get(key).bytes()


class _ObjectsAtOnce(BatchedObjects):
    def __init__(self, target: Target, keys: Sequence[str]) -> None:
        super().__init__(target.prefix, keys)
        self._store = ProcessLocal(partial(make_store, target))
        self._loop = ProcessLocal(asyncio.new_event_loop)

    def read_batch(self, keys: Sequence[str]) -> list[Any]:
        return self._loop.get().run_until_complete(_all_contents(self._store.get(), keys))


async def _all_contents(store: Any, keys: Sequence[str]) -> list[Any]:
    async def content(key: str) -> Any:
        return await (await store.get_async(key)).bytes_async()

    return list(await asyncio.gather(*map(content, keys)))
