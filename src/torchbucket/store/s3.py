"""The store on Amazon S3 and services that speak its protocol."""

from __future__ import annotations

from torchbucket.config import StoreConfig
from torchbucket.store.http import HttpStore
from torchbucket.store.request import Observer
from torchbucket.store.s3_dialect import S3Dialect
from torchbucket.uri import ObjectURI

__all__ = ["S3Store"]


class S3Store(HttpStore):
    """A bucket on S3. Nothing is sent, and no credentials are looked for, before it is used.

    Safe for use by several threads; a forked child opens connections of its own; pickled, it is address and settings.

    Args:
        uri: the bucket's address; a key in it is ignored.
        config: the settings.
        observer: called with a record of every request, on the store's thread.
    """

    def __init__(self, uri: ObjectURI, config: StoreConfig, *, observer: Observer | None = None) -> None:
        super().__init__(uri.root, config, S3Dialect(uri.bucket, config), observer)
