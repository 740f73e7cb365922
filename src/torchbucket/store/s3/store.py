"""The store on Amazon S3 and services that speak its protocol."""

from __future__ import annotations

from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.store.base import refuse_fields
from torchbucket.store.http.store import HttpStore
from torchbucket.store.s3.dialect import S3Dialect
from torchbucket.store.transport.request_record import Observer
from torchbucket.uri import ObjectURI

__all__ = ["S3Store"]

_MEANINGLESS: Final = {
    "user_project": "to accept the charges of a requester-pays bucket, set requester_pays",
    "kms_key_name": "name the key by sse_kms_key_id",
}


class S3Store(HttpStore):
    """A bucket on S3. Nothing is sent, and no credentials are looked for, before it is used.

    Safe for use by several threads; a forked child opens connections of its own; pickled, it is address and settings.

    Args:
        uri: the bucket's address; a key in it is ignored.
        config: the settings.
        observer: called with a record of every request, on the store's thread.

    Raises:
        ConfigError: a setting was given that means nothing on S3.
    """

    def __init__(self, uri: ObjectURI, config: StoreConfig, *, observer: Observer | None = None) -> None:
        refuse_fields(config, uri.root, _MEANINGLESS)
        super().__init__(uri.root, config, S3Dialect(uri.bucket, config), observer)
