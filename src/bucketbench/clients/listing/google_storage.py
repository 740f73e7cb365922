"""google-cloud-storage, Google's SDK: ``list_blobs``, plain and with no more fields than a listing needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bucketbench.clients.google_storage import make_client
from bucketbench.clients.protocol import Target

__all__ = ["GoogleStoragePages"]

_FIELDS: Final = "items(name,size),nextPageToken"
"""*Source*: google-cloud-storage, ``Client.list_blobs``: ``fields`` selects a part of the answer."""


class GoogleStoragePages:
    """One page after another; there is no setting that lists in parallel.

    Args:
        few_fields: whether names and sizes alone are asked for, as the documentation advises; by default every field of
            an object is sent.
    """

    def __init__(self, *, few_fields: bool = False) -> None:
        self._fields = _FIELDS if few_fields else None
        self._client: Any = None

    def names(self, target: Target) -> Iterator[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        if self._client is None:
            self._client = make_client(target)
        for blob in self._client.list_blobs(target.bucket, prefix=target.prefix, fields=self._fields):
            yield blob.name, blob.size
