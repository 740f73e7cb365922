"""obstore, Rust's object_store for Python: a plain get, a batch's gets at once, and large objects in ranges.

For S3 and for Cloud Storage, which it reaches by the XML API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsByIndex, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["Obstore", "ObstoreAsync", "ObstoreSplit", "list_keys", "list_sizes", "make_store"]


def make_store(target: Target) -> Any:
    """An obstore store for a target; credentials come from the environment, as obstore reads it."""
    from obstore.store import GCSStore, S3Store

    client: dict[str, Any] = {}
    if target.endpoint is not None and target.endpoint.startswith("http://"):
        client["allow_http"] = True
    if target.ca_bundle is not None:
        client["root_certificate"] = Path(target.ca_bundle).read_bytes()
    if target.scheme == "gs":
        settings = _gcs_config(target)
        return GCSStore(target.bucket, config=settings, client_options=client)  # type: ignore[arg-type]  # as below
    settings = _s3_config(target)
    return S3Store(target.bucket, config=settings, client_options=client)  # type: ignore[arg-type]  # built key by key


def _gcs_config(target: Target) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if target.endpoint is not None:
        config["base_url"] = target.endpoint
    if target.anonymous:
        config["skip_signature"] = True
        if target.endpoint is not None:
            # Source: object_store, GoogleCloudStorage: reads heed skip_signature, writes ask for a token all the same.
            config["bearer_token"] = "anonymous"  # noqa: S105  # no secret
    return config


def _s3_config(target: Target) -> dict[str, Any]:
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
    return config


def list_sizes(store: Any, target: Target) -> dict[str, int]:
    """Every key under the target's prefix with its size in bytes; obstore takes a prefix for whole path segments.

    An empty object whose name ends with a slash, as consoles make them for folders, is listed by its name without the
    slash, under which it cannot be read: it is left out.
    """
    # The chunk is how many entries come at once from Rust; the requests are the same.
    found = {item["path"]: item["size"] for chunk in store.list(target.prefix, chunk_size=1000) for item in chunk}
    return {key: size_bytes for key, size_bytes in found.items() if size_bytes or _is_there(store, key)}


def _is_there(store: Any, key: str) -> bool:
    try:
        store.head(key)
    except FileNotFoundError:
        return False
    return True


def list_keys(store: Any, target: Target) -> list[str]:
    """Every key under the target's prefix, as ``list_sizes`` finds them."""
    return list(list_sizes(store, target))


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


class ObstoreSplit:
    """Every object in ranges, a whole batch's at once: how large objects are read over more than one connection.

    obstore splits no ``get``, and its ``get_ranges`` has at most 10 ranges under way and merges neighbours; so single
    ``get_range_async`` calls are fanned out. *Source:* object_store, ``OBJECT_STORE_COALESCE_PARALLEL`` and
    ``OBJECT_STORE_COALESCE_DEFAULT``.

    Args:
        part_bytes: length of a range; an object that is no longer is read by a plain get.
        requests: ranges under way at once in each worker.
    """

    fork_safe = False

    def __init__(self, *, part_bytes: int, requests: int) -> None:
        self._part_bytes = part_bytes
        self._requests = requests

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        sizes = list_sizes(make_store(target), target)
        return _ObjectsInRanges(target, sizes, part_bytes=self._part_bytes, requests=self._requests)


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


class _ObjectsInRanges(BatchedObjects):
    def __init__(self, target: Target, sizes: Mapping[str, int], *, part_bytes: int, requests: int) -> None:
        super().__init__(target.prefix, tuple(sizes))
        self._sizes = sizes
        self._part_bytes = part_bytes
        self._requests = requests
        self._store = ProcessLocal(partial(make_store, target))
        self._loop = ProcessLocal(asyncio.new_event_loop)

    def read_batch(self, keys: Sequence[str]) -> list[Any]:
        return self._loop.get().run_until_complete(self._contents(keys))

    async def _contents(self, keys: Sequence[str]) -> list[Any]:
        store = self._store.get()
        turn = asyncio.Semaphore(self._requests)

        async def whole(key: str) -> Any:
            async with turn:
                return await (await store.get_async(key)).bytes_async()

        async def part(key: str, start: int, into: memoryview) -> None:
            async with turn:
                into[:] = await store.get_range_async(key, start=start, length=len(into))

        async def content(key: str) -> Any:
            size_bytes = self._sizes[key]
            if size_bytes <= self._part_bytes:
                return await whole(key)
            buffer = bytearray(size_bytes)
            view = memoryview(buffer)
            starts = range(0, size_bytes, self._part_bytes)
            await asyncio.gather(*(part(key, start, view[start : start + self._part_bytes]) for start in starts))
            return buffer

        return list(await asyncio.gather(*map(content, keys)))
