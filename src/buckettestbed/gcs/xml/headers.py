"""Headers that describe an object, in requests and in answers. *Source*: Cloud Storage XML API reference, HTTP
headers."""

from collections.abc import Mapping
from dataclasses import replace
from email.utils import formatdate

from buckettestbed.gcs.hashes import hash_header
from buckettestbed.gcs.limits import METADATA_LIMIT_BYTES, STORAGE_CLASSES
from buckettestbed.gcs.xml.errors import XmlApiError
from buckettestbed.model.objects import Attributes, StoredObject
from buckettestbed.rest.attributes import ObjectHeaders, described_attributes, stated_attributes

__all__ = ["OBJECT_HEADERS", "requested_attributes", "written_headers"]

_KEPT = ("content-type", "cache-control", "content-disposition", "content-encoding", "content-language")

_DEFAULT_TYPE = "application/octet-stream"
"""*Source*: Cloud Storage documentation, object metadata, Content-Type."""


def requested_attributes(headers: Mapping[str, str]) -> Attributes:
    """Returns the attributes that a PUT's or an upload's headers state; raises MetadataTooLarge or
    InvalidStorageClass."""
    stated = stated_attributes(
        headers, kept=_KEPT, metadata_prefix="x-goog-meta-", metadata_limit_bytes=METADATA_LIMIT_BYTES
    )
    storage_class = headers.get("x-goog-storage-class", "STANDARD").upper()
    if storage_class not in STORAGE_CLASSES:
        raise XmlApiError("InvalidStorageClass", f"x-goog-storage-class is {storage_class!r}")
    return replace(stated, storage_class=storage_class)


def _object_headers(found: StoredObject) -> list[tuple[bytes, bytes]]:
    return [
        *written_headers(found),
        (b"last-modified", formatdate(found.modified_s, usegmt=True).encode()),
        (b"accept-ranges", b"bytes"),
        *described_attributes(found.attributes, kept=_KEPT, default_type=_DEFAULT_TYPE, metadata_prefix="x-goog-meta-"),
    ]


OBJECT_HEADERS = ObjectHeaders("gcs-xml", _object_headers)
"""Of every answer about an object."""


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
