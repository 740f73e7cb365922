"""The store on Amazon S3 and services that speak its protocol."""

from __future__ import annotations

from types import MappingProxyType

from torchbucket.config import StoreConfig
from torchbucket.store.http.store import HttpStore
from torchbucket.store.s3.dialect import S3Dialect

__all__ = ["S3Store"]


class S3Store(HttpStore):
    """A bucket on S3."""

    meaningless = MappingProxyType(
        {
            "user_project": "to accept the charges of a requester-pays bucket, set requester_pays",
            "kms_key_name": "name the key by sse_kms_key_id",
        }
    )

    @staticmethod
    def _dialect_of(bucket: str, config: StoreConfig) -> S3Dialect:
        return S3Dialect(bucket, config)
