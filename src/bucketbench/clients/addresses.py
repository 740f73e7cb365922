"""The URL of every object of a target, with its size: what a bare HTTP client needs to read them.

S3's are presigned when they are made, or plain where the target is anonymous, so that no signing falls into a fetch. A
Cloud Storage URL is signed by a service account's key only, which not every credential has: there the requests carry
the access token, as those of other clients do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from bucketbench.clients.boto3 import make_client as make_s3_client
from bucketbench.clients.google_storage import list_sizes
from bucketbench.clients.google_storage import make_client as make_gcs_client
from bucketbench.clients.protocol import Target

__all__ = ["Address", "Requests", "addresses_of", "headers_of"]

_EXPIRY_S: Final = 12 * 3600  # of presigned addresses; a job is far shorter
_GOOGLE: Final = "https://storage.googleapis.com"
_READ_ONLY: Final = "https://www.googleapis.com/auth/devstorage.read_only"
_READ_WRITE: Final = "https://www.googleapis.com/auth/devstorage.read_write"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where an object can be read by a plain GET.

    Args:
        url: with the signature, where it has one.
        size_bytes: as the listing said.
    """

    url: str
    size_bytes: int


def addresses_of(target: Target) -> dict[str, Address]:
    """The address of every object of the target, by key, listed by the provider's own SDK."""
    return _gcs_addresses(target) if target.scheme == "gs" else _s3_addresses(target)


class Requests:
    """The URLs by which single objects are read, written in parts and removed.

    Cloud Storage's XML API takes uploads in parts by the same requests as S3.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._s3 = None if target.scheme == "gs" else make_s3_client(target)

    def url(self, operation: str, key: str, *, upload_id: str | None = None, part_number: int | None = None) -> str:
        """The URL of a request.

        Args:
            operation: as boto3 calls it, such as ``upload_part``.
            key: the object's.
            upload_id: of an upload in parts.
            part_number: likewise.
        """
        query = {name: value for name, value in (("uploadId", upload_id), ("partNumber", part_number)) if value}
        if self._s3 is None:
            words = "uploads" if operation == "create_multipart_upload" else urlencode(query)
            root = f"{self._target.endpoint or _GOOGLE}/{self._target.bucket}"
            return f"{root}/{quote(key, safe='/')}{'?' if words else ''}{words}"
        fields = {f"{name[0].upper()}{name[1:]}": value for name, value in query.items()}
        url: str = self._s3.generate_presigned_url(
            operation, Params={"Bucket": self._target.bucket, "Key": key, **fields}, ExpiresIn=_EXPIRY_S
        )
        return url


def headers_of(target: Target, *, writes: bool = False) -> list[str]:
    """The header lines that each request needs; asked for in the process that sends them, and in no pickle.

    An access token is valid for an hour, which a job that does not renew it has to be done in.
    """
    if target.scheme != "gs" or target.anonymous:
        return []
    import google.auth
    import google.auth.transport.requests

    credentials, _ = google.auth.default(scopes=[_READ_WRITE if writes else _READ_ONLY])
    credentials.refresh(google.auth.transport.requests.Request())  # type: ignore[no-untyped-call]  # google-auth's
    return [f"Authorization: Bearer {credentials.token}"]


def _s3_addresses(target: Target) -> dict[str, Address]:
    client = make_s3_client(target)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=target.bucket, Prefix=target.prefix)
    return {
        item["Key"]: Address(
            url=client.generate_presigned_url(
                "get_object", Params={"Bucket": target.bucket, "Key": item["Key"]}, ExpiresIn=_EXPIRY_S
            ),
            size_bytes=item["Size"],
        )
        for page in pages
        for item in page.get("Contents", ())
    }


def _gcs_addresses(target: Target) -> dict[str, Address]:
    root = f"{target.endpoint or _GOOGLE}/{target.bucket}"
    sizes = list_sizes(make_gcs_client(target), target)
    return {key: Address(url=f"{root}/{quote(key, safe='/')}", size_bytes=size) for key, size in sizes.items()}
