"""The fsspec file systems for S3 and Cloud Storage: ``find``, which returns when all names are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bucketbench.clients.listing.protocol import LibraryNames
from bucketbench.clients.protocol import Target

__all__ = ["GCSFSFind", "S3FSFind"]


class _Find:
    """``find`` with details, whose result is a dictionary of all objects' descriptions."""

    def __init__(self) -> None:
        self._filesystem: Any = None

    def _make(self, target: Target) -> Any:
        raise NotImplementedError

    def names(self, target: Target) -> Iterable[tuple[str, int]]:
        """Every object of the target."""
        if self._filesystem is None:
            self._filesystem = self._make(target)
        # It keeps listings from one call to the next, and would answer the second from its memory.
        self._filesystem.invalidate_cache()
        found = self._filesystem.find(f"{target.bucket}/{target.prefix}", detail=True)
        bucket = len(target.bucket) + 1  # paths begin with the bucket and a slash
        return LibraryNames(found.values(), lambda info: (info["name"][bucket:], info["size"]))


class S3FSFind(_Find):
    """s3fs, every setting at its default."""

    def _make(self, target: Target) -> Any:
        from bucketbench.clients.s3fs import make_filesystem

        return make_filesystem(target)


class GCSFSFind(_Find):
    """gcsfs, every setting at its default."""

    def _make(self, target: Target) -> Any:
        from bucketbench.clients.gcsfs import make_filesystem

        return make_filesystem(target)
