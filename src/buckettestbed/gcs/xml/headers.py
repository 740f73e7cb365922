"""Headers that describe an object, in requests and in answers. *Source*: Cloud Storage XML API reference, HTTP
headers."""

from collections.abc import Mapping
from dataclasses import replace
from email.utils import formatdate
from typing import cast

from buckettestbed.gcs.hashes import hash_header
from buckettestbed.gcs.xml.errors import XmlApiError
from buckettestbed.model.objects import Attributes, StoredObject
from buckettestbed.rest.attributes import described_attributes, stated_attributes

__all__ = ["METADATA_LIMIT_BYTES", "object_head", "object_headers", "requested_attributes", "written_headers"]

METADATA_LIMIT_BYTES = 8 << 10
"""*Source*: Cloud Storage quotas and limits: custom metadata of an object, 8 KiB."""

_KEPT = ("content-type", "cache-control", "content-disposition", "content-encoding", "content-language")

_STORAGE_CLASSES = frozenset(
    ["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY"]
)
"""*Source*: Cloud Storage documentation, storage classes, the older ones included."""

_DEFAULT_TYPE = "application/octet-stream"
"""*Source*: Cloud Storage documentation, object metadata, Content-Type."""


def requested_attributes(headers: Mapping[str, str]) -> Attributes:
    """Returns the attributes that a PUT's or an upload's headers state; raises MetadataTooLarge or
    InvalidStorageClass."""
    stated = stated_attributes(
        headers, kept=_KEPT, metadata_prefix="x-goog-meta-", metadata_limit_bytes=METADATA_LIMIT_BYTES
    )
    storage_class = headers.get("x-goog-storage-class", "STANDARD").upper()
    if storage_class not in _STORAGE_CLASSES:
        raise XmlApiError("InvalidStorageClass", f"x-goog-storage-class is {storage_class!r}")
    return replace(stated, storage_class=storage_class)


def object_headers(found: StoredObject) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an object that every answer with it has; built once, so do not change the list."""
    return _prepared(found)[0]


def object_head(found: StoredObject) -> bytes:
    """Returns the same headers as they go over the wire, each line ended; built once."""
    return _prepared(found)[1]


def _prepared(found: StoredObject) -> tuple[list[tuple[bytes, bytes]], bytes]:
    if found.prepared is None:
        found.prepared = {}
    if "gcs-xml" not in found.prepared:
        headers = [
            *written_headers(found),
            (b"last-modified", formatdate(found.modified_s, usegmt=True).encode()),
            (b"accept-ranges", b"bytes"),
            *described_attributes(
                found.attributes, kept=_KEPT, default_type=_DEFAULT_TYPE, metadata_prefix="x-goog-meta-"
            ),
        ]
        found.prepared["gcs-xml"] = headers, b"".join(b"%s: %s\r\n" % header for header in headers)
    return cast("tuple[list[tuple[bytes, bytes]], bytes]", found.prepared["gcs-xml"])


def written_headers(found: StoredObject) -> list[tuple[bytes, bytes]]:
    """Returns the headers with which the answer to a write says what was stored."""
    encoding = found.attributes.headers.get("content-encoding", "identity")
    return [
        (b"etag", b'"%s"' % found.etag.encode()),
        (b"x-goog-generation", b"%d" % found.generation),
        (b"x-goog-metageneration", b"%d" % found.metageneration),
        (b"x-goog-hash", hash_header(found)),
        (b"x-goog-stored-content-length", b"%d" % found.size_bytes),
        (b"x-goog-stored-content-encoding", encoding.encode("latin-1")),
        (b"x-goog-storage-class", found.attributes.storage_class.encode()),
    ]
