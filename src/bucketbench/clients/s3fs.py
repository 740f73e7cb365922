"""s3fs, the fsspec file system for S3: one ``cat_file`` an object, and ``cat`` of a whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsByIndex, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["S3FS", "S3FSBatch", "list_keys", "make_filesystem", "register_filesystem"]


def make_filesystem(target: Target, *, max_pool_connections: int | None = None) -> Any:
    """An s3fs file system for a target, with s3fs's defaults for all that the target leaves open."""
    from s3fs import S3FileSystem

    return S3FileSystem(**_options(target, max_pool_connections=max_pool_connections))


def register_filesystem(target: Target, *, block_bytes: int | None = None) -> None:
    """Have fsspec make its file systems for ``s3://`` addresses as ``make_filesystem`` does, in this process.

    Args:
        target: where they read and write.
        block_bytes: by how much files that they open are read ahead, and of what size their parts are; None for s3fs's
            default, 50 MiB.
    """
    import fsspec.config

    block = {} if block_bytes is None else {"default_block_size": block_bytes}
    # Source: fsspec, "Configuration": what is here by protocol is given to each file system that is made.
    fsspec.config.conf["s3"] = _options(target) | block


def _options(target: Target, *, max_pool_connections: int | None = None) -> dict[str, Any]:
    """The arguments of s3fs's class by which it finds a target."""
    client: dict[str, Any] = {}
    if target.region is not None:
        client["region_name"] = target.region
    if target.ca_bundle is not None:
        client["verify"] = target.ca_bundle
    config: dict[str, Any] = {}
    if target.path_style:
        config["s3"] = {"addressing_style": "path"}
    if max_pool_connections is not None:
        config["max_pool_connections"] = max_pool_connections
    return {
        "anon": target.anonymous,
        "endpoint_url": target.endpoint,
        "client_kwargs": client,
        "config_kwargs": config,
    }


def list_keys(filesystem: Any, target: Target) -> list[str]:
    """Every key under the target's prefix, by the file system's own ``find``.

    An empty object whose name ends with a slash, as consoles make them for folders, is left out: ``cat`` looks for its
    name without the slash.
    """
    found = filesystem.find(f"{target.bucket}/{target.prefix}", detail=True)
    paths = (path for path, entry in found.items() if entry["size"] or not path.endswith("/"))
    return [path.removeprefix(f"{target.bucket}/") for path in paths]


class S3FS:
    """``cat_file`` in ``__getitem__``, one after another in each worker, every setting at its default.

    It is s3fs's shortest way to a whole object (``open`` and ``read`` go through a read-ahead cache). By default it
    asks for the object's size first, so it sends a HEAD and a GET.
    """

    # Source: s3fs, "Multiprocessing": use spawn or forkserver, its event loop and lock do not survive a fork.
    fork_safe = False

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target."""
        return _Objects(target, list_keys(make_filesystem(target), target))


class S3FSBatch:
    """``cat`` of a whole batch: fsspec's documented way to read many objects concurrently.

    *Source:* fsspec, "Async"; s3fs, ``S3FileSystem`` (``max_concurrency``, ``config_kwargs``); aiobotocore's pool has
    10 connections by default.

    Args:
        max_pool_connections: connections of each worker.
        max_concurrency: ranges of one object read at once. 1 reads an object by one GET, without the HEAD that finds
            out whether it is large enough to split: best for objects below s3fs's block of 50 MiB.
    """

    fork_safe = False

    def __init__(self, *, max_pool_connections: int, max_concurrency: int) -> None:
        self._max_pool_connections = max_pool_connections
        self._max_concurrency = max_concurrency

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        make = partial(make_filesystem, target, max_pool_connections=self._max_pool_connections)
        return _ObjectsAtOnce(target, list_keys(make(), target), make, max_concurrency=self._max_concurrency)


class _Objects(ObjectsByIndex):
    def __init__(self, target: Target, keys: Sequence[str]) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._filesystem = ProcessLocal(partial(make_filesystem, target))

    def read(self, key: str) -> bytes:
        content: bytes = self._filesystem.get().cat_file(f"{self._bucket}/{key}")
        return content


class _ObjectsAtOnce(BatchedObjects):
    def __init__(self, target: Target, keys: Sequence[str], make: partial[Any], *, max_concurrency: int) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._max_concurrency = max_concurrency
        self._filesystem = ProcessLocal(make)

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        paths = [f"{self._bucket}/{key}" for key in keys]
        # A path that holds a wildcard is expanded by `cat`; `on_error` raises for one that is missing. One path alone
        # comes back as its content instead of a mapping.
        found = self._filesystem.get().cat(paths, max_concurrency=self._max_concurrency)
        return [found[path] for path in paths] if isinstance(found, dict) else [found]
