"""The fsspec file systems for S3 and Cloud Storage: a file that torch is given, and a whole object at once."""

from __future__ import annotations

import io
from typing import Any

import torch

from bucketbench.clients.protocol import Target

__all__ = ["GCSFSOpen", "GCSFSWhole", "S3FSOpen", "S3FSWhole"]


class S3FSOpen:
    """s3fs: ``torch.save`` into a file that ``open`` gives, ``torch.load`` from one, every setting at its default."""

    def checkpoints(self, target: Target) -> _Opened:
        """The checkpoints below the target's prefix."""
        from bucketbench.clients.s3fs import make_filesystem

        return _Opened(make_filesystem(target), target)


class S3FSWhole:
    """s3fs: ``pipe_file`` of what ``torch.save`` wrote into memory, and ``cat_file``, both with 10 parts under way.

    Args:
        max_pool_connections: connections.
    """

    def __init__(self, *, max_pool_connections: int) -> None:
        self._max_pool_connections = max_pool_connections

    def checkpoints(self, target: Target) -> _Whole:
        """The checkpoints below the target's prefix."""
        from bucketbench.clients.s3fs import make_filesystem

        return _Whole(make_filesystem(target, max_pool_connections=self._max_pool_connections), target, read={})


class GCSFSOpen:
    """gcsfs: as :class:`S3FSOpen`."""

    def checkpoints(self, target: Target) -> _Opened:
        """The checkpoints below the target's prefix."""
        from bucketbench.clients.gcsfs import make_filesystem

        return _Opened(make_filesystem(target), target)


class GCSFSWhole:
    """gcsfs: ``pipe_file``, whose pieces follow one another, and ``cat_file`` in ranges at once.

    Args:
        concurrency: ranges of a ``cat_file`` under way; 1, gcsfs's default, reads by one GET.
    """

    def __init__(self, *, concurrency: int = 1) -> None:
        self._concurrency = concurrency

    def checkpoints(self, target: Target) -> _Whole:
        """The checkpoints below the target's prefix."""
        from bucketbench.clients.gcsfs import make_filesystem

        return _Whole(make_filesystem(target), target, read={"concurrency": self._concurrency})


class _Opened:
    def __init__(self, filesystem: Any, target: Target) -> None:
        self._filesystem = filesystem
        self._root = f"{target.bucket}/{target.prefix}"

    def save(self, state: Any, key: str) -> None:
        with self._filesystem.open(self._root + key, "wb") as file:
            torch.save(state, file)

    def load(self, key: str) -> Any:
        with self._filesystem.open(self._root + key, "rb") as file:
            return torch.load(file, weights_only=True)

    def remove(self, key: str) -> None:
        self._filesystem.rm_file(self._root + key)

    def close(self) -> None:
        """The connections belong to fsspec's event loop, which ends with the process."""


class _Whole:
    def __init__(self, filesystem: Any, target: Target, *, read: dict[str, Any]) -> None:
        self._filesystem = filesystem
        self._root = f"{target.bucket}/{target.prefix}"
        self._read = read

    def save(self, state: Any, key: str) -> None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        self._filesystem.pipe_file(self._root + key, buffer.getvalue())

    def load(self, key: str) -> Any:
        return torch.load(io.BytesIO(self._filesystem.cat_file(self._root + key, **self._read)), weights_only=True)

    def remove(self, key: str) -> None:
        self._filesystem.rm_file(self._root + key)

    def close(self) -> None:
        """As above."""
