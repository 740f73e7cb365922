"""The XML of S3's answers and of the one request that has any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from urllib.parse import unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from torchbucket.store.http.dialect import UploadedPart, UploadPage
from torchbucket.store.protocol import OpenUpload

__all__ = [
    "MalformedAnswerError",
    "children",
    "completion",
    "error_fields",
    "fields_of",
    "name_of",
    "parsed",
    "required",
    "text_of",
    "upload_page",
]


class MalformedAnswerError(ValueError):
    """The answer is no XML document that S3 would send."""


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree, and refuses a document type: S3 sends none, and entities are the way to attack a parser."""

    def doctype(self, name: str, _pubid: str | None, _system: str | None) -> None:
        raise MalformedAnswerError(f"the XML has a document type, {name!r}, which S3 never sends")


def parsed(body: bytes) -> ElementTree.Element:
    """Read a document; raise ``MalformedAnswerError`` where it is none, or has a document type."""
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


def name_of(element: ElementTree.Element) -> str:
    """An element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def fields_of(element: ElementTree.Element) -> dict[str, str]:
    """The texts of an element's children by their names."""
    return {name_of(child): child.text or "" for child in element}


def children(element: ElementTree.Element, name: str) -> Iterator[dict[str, str]]:
    """The fields of each child of that name."""
    return (fields_of(child) for child in element if name_of(child) == name)


def required(fields: dict[str, str], name: str) -> str:
    """One field; raise ``MalformedAnswerError`` where the answer lacks it."""
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
        root = parsed(body)
    except MalformedAnswerError:
        return {}
    return fields_of(root) if name_of(root) == "Error" else {}


def text_of(body: bytes, root_name: str, element: str) -> str:
    """The text of one element below the root, whose own name is checked."""
    root = parsed(body)
    if name_of(root) != root_name:
        raise MalformedAnswerError(f"expected the document {root_name}, got {name_of(root)}")
    return required(fields_of(root), element)


def upload_page(body: bytes) -> UploadPage:
    """Read a page of ListMultipartUploads that was asked for with ``encoding-type=url``."""
    root = parsed(body)
    if name_of(root) != "ListMultipartUploadsResult":
        # A server without this request answers with the list of objects: no uploads, it would seem.
        raise MalformedAnswerError(f"expected the document ListMultipartUploadsResult, got {name_of(root)}")
    top = fields_of(root)
    decode = unquote_plus if top.get("EncodingType") == "url" else str
    uploads = [
        OpenUpload(
            key=decode(required(fields, "Key")),
            upload_id=required(fields, "UploadId"),
            started_s=_seconds(fields.get("Initiated")),
        )
        for fields in children(root, "Upload")
    ]
    marker = None
    if top.get("IsTruncated") == "true":
        marker = (decode(required(top, "NextKeyMarker")), top.get("NextUploadIdMarker", ""))
    return UploadPage(uploads=uploads, next_marker=marker)


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
