"""What a write says about its object: content headers, user metadata, storage class, encryption."""

from collections.abc import Mapping
from dataclasses import replace

from buckettestbed.model.objects import Attributes
from buckettestbed.rest.attributes import stated_attributes
from buckettestbed.s3.errors import S3Error

__all__ = ["CONTENT_HEADERS", "METADATA_LIMIT_BYTES", "encrypted", "requested_attributes"]

METADATA_LIMIT_BYTES = 2048
"""*Source*: Amazon S3 user guide, object metadata: names and values of user metadata together at most 2 KiB."""

_STORAGE_CLASSES = frozenset(
    [
        "STANDARD",
        "REDUCED_REDUNDANCY",
        "STANDARD_IA",
        "ONEZONE_IA",
        "INTELLIGENT_TIERING",
        "GLACIER",
        "GLACIER_IR",
        "DEEP_ARCHIVE",
        "OUTPOSTS",
        "SNOW",
        "EXPRESS_ONEZONE",
    ]
)
"""*Source*: Amazon S3 API reference, PutObject, x-amz-storage-class."""

CONTENT_HEADERS = (
    "content-type",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
)
"""Headers that go with an object. *Source*: Amazon S3 user guide, object metadata, system-defined."""


def encrypted(encryption: str) -> tuple[bytes, bytes]:
    """Returns the header that every answer about an object has. The testbed only says so.

    *Source*: Amazon S3 user guide, default encryption: since January 2023 every new object is encrypted with AES256,
    asked for or not, unless its bucket has a KMS key.
    """
    return b"x-amz-server-side-encryption", encryption.encode()


def requested_attributes(headers: Mapping[str, str]) -> Attributes:
    """Returns the attributes that a PUT's or an upload's headers state, without checksums; raises MetadataTooLarge,
    InvalidStorageClass, or NotImplemented for an encryption with keys."""
    _check_encryption(headers)
    storage_class = headers.get("x-amz-storage-class", "STANDARD")
    if storage_class not in _STORAGE_CLASSES:
        raise S3Error("InvalidStorageClass", fields={"StorageClassRequested": storage_class})
    stated = stated_attributes(
        headers, kept=CONTENT_HEADERS, metadata_prefix="x-amz-meta-", metadata_limit_bytes=METADATA_LIMIT_BYTES
    )
    kept = dict(stated.headers)
    if "content-encoding" in kept:  # aws-chunked describes the transfer, not the object.
        encodings = [text.strip() for text in kept.pop("content-encoding").split(",")]
        if remaining := ", ".join(text for text in encodings if text and text.lower() != "aws-chunked"):
            kept["content-encoding"] = remaining
    return replace(stated, headers=kept, storage_class=storage_class)


def _check_encryption(headers: Mapping[str, str]) -> None:
    name = "x-amz-server-side-encryption"
    kind = headers.get(name, "AES256")
    if kind not in ("AES256", "aws:kms", "aws:kms:dsse"):
        raise S3Error("InvalidArgument", f"{name} is {kind!r}.", fields={"ArgumentName": name, "ArgumentValue": kind})
    if kind != "AES256":
        raise S3Error(
            "NotImplemented",
            "The testbed knows no encryption keys, only AES256 with S3's own.",
            fields={"Header": name},
        )
