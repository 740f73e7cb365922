"""The XML of S3's answers and of the one request that has any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from torchbucket.store.dialect import ListPage, UploadedPart, UploadPage
from torchbucket.store.protocol import ObjectInfo, OpenUpload

__all__ = ["MalformedAnswerError", "completion", "error_fields", "list_page", "text_of", "upload_page"]


class MalformedAnswerError(ValueError):
    """The answer is no XML document that S3 would send."""


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree, and refuses a document type: S3 sends none, and entities are the way to attack a parser."""

    def doctype(self, name: str, _pubid: str | None, _system: str | None) -> None:
        raise MalformedAnswerError(f"the XML has a document type, {name!r}, which S3 never sends")


def _parse(body: bytes) -> ElementTree.Element:
    # A document type is refused before any entity of it is read, so that the expansion attacks do not apply.
    parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314
    try:
        parser.feed(body)
        root = parser.close()
    except ElementTree.ParseError as error:
        raise MalformedAnswerError(f"the answer is not XML: {error}") from None
    if not isinstance(root, ElementTree.Element):
        raise MalformedAnswerError("the answer is an empty document")
    return root


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _fields(element: ElementTree.Element) -> dict[str, str]:
    return {_name(child): child.text or "" for child in element}


def _children(element: ElementTree.Element, name: str) -> Iterator[dict[str, str]]:
    return (_fields(child) for child in element if _name(child) == name)


def _required(fields: dict[str, str], name: str) -> str:
    try:
        return fields[name]
    except KeyError:
        raise MalformedAnswerError(f"the answer lacks the element {name}") from None


def _seconds(text: str | None) -> float | None:
    try:
        return None if not text else datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def error_fields(body: bytes) -> dict[str, str]:
    """The elements of an error document, such as ``Code``; empty where the body is none."""
    try:
        root = _parse(body)
    except MalformedAnswerError:
        return {}
    return _fields(root) if _name(root) == "Error" else {}


def text_of(body: bytes, root_name: str, element: str) -> str:
    """The text of one element below the root, whose own name is checked."""
    root = _parse(body)
    if _name(root) != root_name:
        raise MalformedAnswerError(f"expected the document {root_name}, got {_name(root)}")
    return _required(_fields(root), element)


def list_page(body: bytes) -> ListPage:
    """Read a page of ListObjectsV2 that was asked for with ``encoding-type=url``."""
    root = _parse(body)
    if _name(root) != "ListBucketResult":
        raise MalformedAnswerError(f"expected the document ListBucketResult, got {_name(root)}")
    top = _fields(root)
    decode = unquote_plus if top.get("EncodingType") == "url" else str
    objects = []
    for fields in _children(root, "Contents"):
        size = _required(fields, "Size")
        if not (size.isascii() and size.isdigit()):
            raise MalformedAnswerError(f"the listing has the size {size!r}")
        objects.append(
            ObjectInfo(
                key=decode(_required(fields, "Key")),
                size_bytes=int(size),
                version=fields.get("ETag") or None,
                last_modified_s=_seconds(fields.get("LastModified")),
            )
        )
    token = None
    if top.get("IsTruncated") == "true":
        token = top.get("NextContinuationToken")
        if not token:
            raise MalformedAnswerError("the listing says that it goes on, but not how to ask for the rest")
    return ListPage(objects=objects, next_token=token)


def upload_page(body: bytes) -> UploadPage:
    """Read a page of ListMultipartUploads that was asked for with ``encoding-type=url``."""
    root = _parse(body)
    top = _fields(root)
    decode = unquote_plus if top.get("EncodingType") == "url" else str
    uploads = [
        OpenUpload(
            key=decode(_required(fields, "Key")),
            upload_id=_required(fields, "UploadId"),
            started_s=_seconds(fields.get("Initiated")),
        )
        for fields in _children(root, "Upload")
    ]
    marker = None
    if top.get("IsTruncated") == "true":
        marker = (decode(_required(top, "NextKeyMarker")), top.get("NextUploadIdMarker", ""))
    return UploadPage(uploads=uploads, next_marker=marker)


def completion(parts: Iterable[UploadedPart]) -> bytes:
    """The body of CompleteMultipartUpload."""
    pieces = ['<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">']
    for part in parts:
        checksum = f"<ChecksumCRC32>{escape(part.checksum)}</ChecksumCRC32>" if part.checksum else ""
        pieces.append(f"<Part><ETag>{escape(part.tag)}</ETag>{checksum}<PartNumber>{part.number}</PartNumber></Part>")
    pieces.append("</CompleteMultipartUpload>")
    return "".join(pieces).encode()
