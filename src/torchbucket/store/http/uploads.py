"""Uploads in parts, which S3 and Cloud Storage's XML API spell alike: parts, completion, and the list of open ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote_plus
from xml.sax.saxutils import escape

from torchbucket.store.http.checksums import Algorithm, Checksum, combined
from torchbucket.store.http.dates import iso_seconds
from torchbucket.store.http.xml import MalformedAnswerError, children, document, fields_of, required
from torchbucket.store.protocol import OpenUpload

__all__ = ["UploadPage", "UploadedPart", "completion", "sum_of_parts", "upload_page"]


UploadPage: TypeAlias = tuple[list[OpenUpload], tuple[str, str] | None]
"""One page of open uploads, and the marker that asks for the next: None at the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadedPart:
    """What the server said of one part, to be repeated when the upload is completed."""

    number: int
    size_bytes: int
    tag: str
    checksum: str | None = None


def sum_of_parts(algorithm: Algorithm, parts: Iterable[UploadedPart]) -> Checksum | None:
    """The checksum of the object that parts make, from theirs; None where that of any is not known."""
    return combined(algorithm, ((algorithm.read(part.checksum or ""), part.size_bytes) for part in parts))


def completion(parts: Iterable[UploadedPart], *, checksum_element: str = "") -> bytes:
    """The body of CompleteMultipartUpload; the parts' checksums, where they have any, in elements of that name."""
    pieces = ['<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">']
    for part in parts:
        checksum = ""
        if part.checksum is not None and checksum_element:
            checksum = f"<{checksum_element}>{escape(part.checksum)}</{checksum_element}>"
        pieces.append(f"<Part><ETag>{escape(part.tag)}</ETag>{checksum}<PartNumber>{part.number}</PartNumber></Part>")
    pieces.append("</CompleteMultipartUpload>")
    return "".join(pieces).encode()


def upload_page(body: bytes) -> UploadPage:
    """Read a page of ListMultipartUploads that was asked for with ``encoding-type=url``.

    Raises:
        MalformedAnswerError: the answer is no such page. A server without this request answers with the list of
            objects: no uploads, it would seem.
    """
    root = document(body, "ListMultipartUploadsResult")
    top = fields_of(root)
    decode = unquote_plus if top.get("EncodingType") == "url" else str
    uploads = [
        OpenUpload(
            key=decode(required(fields, "Key")),
            upload_id=required(fields, "UploadId"),
            started_s=iso_seconds(fields.get("Initiated")),
        )
        for fields in children(root, "Upload")
    ]
    marker = None
    if top.get("IsTruncated") == "true":
        marker = (decode(required(top, "NextKeyMarker")), top.get("NextUploadIdMarker", ""))
        if not any(marker):
            raise MalformedAnswerError("the list of uploads says that it goes on, but not how to ask for the rest")
    return uploads, marker
