"""gcsfs, the fsspec file system for Cloud Storage: one ``cat_file`` an object, and ``cat`` of a whole batch."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.objects import BatchedObjects, ObjectsByIndex, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target

__all__ = ["GCSFS", "GCSFSBatch", "list_keys", "make_filesystem", "register_filesystem"]


def make_filesystem(target: Target) -> Any:
    """A gcsfs file system for a target, with gcsfs's defaults for all that the target leaves open."""
    import gcsfs
    import gcsfs.core

    # With an endpoint of its own, the class without zonal buckets: the other asks by gRPC what kind a bucket is, which
    # only Google's own endpoint answers, and waits for a minute elsewhere. Source: gcsfs, "Zonal buckets".
    kind = gcsfs.GCSFileSystem if target.endpoint is None else gcsfs.core.GCSFileSystem
    return kind(**_options(target), skip_instance_cache=True)


def _options(target: Target) -> dict[str, Any]:
    """The arguments of gcsfs's classes by which they find a target."""
    import fsspec.asyn

    session: dict[str, Any] = {}
    if target.ca_bundle is not None:
        # A connector belongs to the event loop that gcsfs works on.
        loop = fsspec.asyn.get_loop()
        session["connector"] = fsspec.asyn.sync(loop, _connector, target.ca_bundle)
    return {
        "token": "anon" if target.anonymous else None,
        "endpoint_url": target.endpoint,
        "session_kwargs": session,
    }


def register_filesystem(target: Target, *, cache_type: str | None = None) -> None:
    """Have fsspec make the file systems for ``gs://`` addresses of this target, in this process.

    To be called before gcsfs is imported, for the sake of Lightning.

    Args:
        target: where they read and write.
        cache_type: of the files that they open, by fsspec's names, such as ``readahead``; None for gcsfs's default.
    """
    import fsspec
    import fsspec.config

    if target.endpoint is not None:
        # So that `gcsfs.GCSFileSystem`, by which Lightning knows where to upload at once, is the class that
        # `make_filesystem` takes.
        os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
        import gcsfs.core

        # Also where gcsfs was imported before.
        fsspec.register_implementation("gs", gcsfs.core.GCSFileSystem, clobber=True)
    if cache_type is not None:
        fsspec.register_implementation("gs", _cached(fsspec.get_filesystem_class("gs"), cache_type), clobber=True)
    # Source: fsspec, "Configuration": what is here by protocol is given to each file system that is made.
    fsspec.config.conf["gs"] = _options(target)


def _cached(kind: Any, cache_type: str) -> Any:
    """A class of file systems whose files have a kind of cache unless told otherwise.

    That is the way to tell it where a program opens the files and takes no options for them.
    """

    class Cached(kind):  # type: ignore[misc]  # the class is known at run time only
        def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            return super()._open(path, mode, **{"cache_type": cache_type, **options})

    return Cached


async def _connector(ca_bundle: str) -> Any:
    import aiohttp

    return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_bundle))


def list_keys(filesystem: Any, target: Target) -> list[str]:
    """Every key under the target's prefix, by the file system's own ``find``."""
    paths = filesystem.find(f"{target.bucket}/{target.prefix}")
    return [path.removeprefix(f"{target.bucket}/") for path in paths]


class GCSFS:
    """``cat_file`` in ``__getitem__``, one after another in each worker, every setting at its default.

    It is gcsfs's shortest way to a whole object: one GET (``open`` and ``read`` ask for its size first, and go through
    a read-ahead cache).
    """

    # Source: fsspec, "Async": its event loop and thread do not survive a fork.
    fork_safe = False

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target."""
        return _Objects(target, list_keys(make_filesystem(target), target))


class GCSFSBatch:
    """``cat`` of a whole batch: fsspec's documented way to read many objects concurrently.

    *Source:* fsspec, "Async"; aiohttp, ``TCPConnector``: 100 connections by default, more than a batch has objects, so
    that there is nothing to set for these.

    Args:
        concurrency: ranges of one object read at once, of 5 MiB at least; 1, the default, reads it by one GET. With
            more, gcsfs asks for each object's size first. *Source*: gcsfs, ``GCSFileSystem._cat_file``, which calls it
            experimental.
    """

    fork_safe = False

    def __init__(self, *, concurrency: int = 1) -> None:
        self._concurrency = concurrency

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        keys = list_keys(make_filesystem(target), target)
        return _ObjectsAtOnce(target, keys, concurrency=self._concurrency)


class _Objects(ObjectsByIndex):
    def __init__(self, target: Target, keys: Sequence[str]) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._filesystem = ProcessLocal(partial(make_filesystem, target))

    def read(self, key: str) -> bytes:
        content: bytes = self._filesystem.get().cat_file(f"{self._bucket}/{key}")
        return content


class _ObjectsAtOnce(BatchedObjects):
    def __init__(self, target: Target, keys: Sequence[str], *, concurrency: int) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._options = {"concurrency": concurrency} if concurrency > 1 else {}
        self._filesystem = ProcessLocal(partial(make_filesystem, target))

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        paths = [f"{self._bucket}/{key}" for key in keys]
        # A path that holds a wildcard is expanded by `cat`; `on_error` raises for one that is missing. One path alone
        # comes back as its content instead of a mapping.
        found = self._filesystem.get().cat(paths, **self._options)
        return [found[path] for path in paths] if isinstance(found, dict) else [found]
