"""The store on Google Cloud Storage and services that speak its protocols."""

from __future__ import annotations

from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.store.base import refuse_fields
from torchbucket.store.gcs.dialect import GcsDialect
from torchbucket.store.http.store import HttpStore
from torchbucket.store.transport.request_record import Observer
from torchbucket.uri import ObjectURI

__all__ = ["GcsStore"]

_MEANINGLESS: Final = {
    "region": "a bucket's place is no part of its address",
    "path_style": "the bucket is always part of the path",
    "profile": "credentials come from Application Default Credentials",
    "requester_pays": "name the project that pays, by user_project",
    "upload_checksum": "Cloud Storage keeps a CRC-32C of every object, and uploads carry that",
    "sse": "everything is encrypted; name a key of your own by kms_key_name",
    "sse_kms_key_id": "name the key by kms_key_name",
}


class GcsStore(HttpStore):
    """A bucket on Cloud Storage. Nothing is sent, and no credentials are looked for, before it is used.

    Safe for use by several threads; a forked child opens connections of its own; pickled, it is address and settings.

    Args:
        uri: the bucket's address; a key in it is ignored.
        config: the settings.
        observer: called with a record of every request, on the store's thread.

    Raises:
        ConfigError: a setting was given that means nothing on Cloud Storage.
    """

    def __init__(self, uri: ObjectURI, config: StoreConfig, *, observer: Observer | None = None) -> None:
        refuse_fields(config, uri.root, _MEANINGLESS)
        super().__init__(uri.root, config, GcsDialect(uri.bucket, config), observer)
