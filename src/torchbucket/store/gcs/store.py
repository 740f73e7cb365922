"""The store on Google Cloud Storage and services that speak its protocols."""

from __future__ import annotations

from types import MappingProxyType

from torchbucket.config import StoreConfig
from torchbucket.store.gcs.dialect import GcsDialect
from torchbucket.store.http.store import HttpStore

__all__ = ["GcsStore"]


class GcsStore(HttpStore):
    """A bucket on Cloud Storage."""

    meaningless = MappingProxyType(
        {
            "region": "a bucket's place is no part of its address",
            "path_style": "the bucket is always part of the path",
            "profile": "credentials come from Application Default Credentials",
            "requester_pays": "name the project that pays, by user_project",
            "upload_checksum": "Cloud Storage keeps a CRC-32C of every object, and uploads carry that",
            "sse": "everything is encrypted; name a key of your own by kms_key_name",
            "sse_kms_key_id": "name the key by kms_key_name",
        }
    )

    @staticmethod
    def _dialect_of(bucket: str, config: StoreConfig) -> GcsDialect:
        return GcsDialect(bucket, config)
