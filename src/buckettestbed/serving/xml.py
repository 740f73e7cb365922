"""XML as S3 and the XML API of GCS write and read it."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from xml.etree import ElementTree

__all__ = [
    "S3_NAMESPACE",
    "XML_HEADER",
    "MalformedXmlError",
    "children",
    "document",
    "element",
    "parse",
    "text",
    "timestamp",
]

XML_HEADER = (b"content-type", b"application/xml")
S3_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_ESCAPED = re.compile('[&<>"\x00-\x1f\x7f\ufffe\uffff]')


class MalformedXmlError(ValueError):
    """A body is not the XML that was expected; the message says in which way."""


def text(value: str) -> str:
    """Returns a text escaped for XML; control characters become numeric references, as S3 writes them."""
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"&#x{ord(found[0]):x};", value)


def element(name: str, value: str | int) -> str:
    """Returns one element with a text."""
    return f"<{name}>{text(value) if isinstance(value, str) else value}</{name}>"


def document(name: str, content: Iterable[str], *, namespace: str | None = S3_NAMESPACE) -> bytes:
    """Returns a document whose root holds the elements given."""
    attribute = f' xmlns="{namespace}"' if namespace else ""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}{attribute}>{"".join(content)}</{name}>'.encode()


def timestamp(seconds: float) -> str:
    """Returns a time since the epoch in S3's ISO 8601 form, to the millisecond."""
    whole, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_second(whole)}.{microseconds // 1000:03}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """Returns a whole second as text; objects that are listed together were often written in the same."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")


def parse(body: bytes, root: str) -> ElementTree.Element:
    """Returns the root of a document; raises MalformedXmlError when it is not well-formed, has a document type or
    another root."""
    if b"<!" in body:  # No document S3 takes has a DTD, a comment or CDATA; a DTD could define entities without end.
        raise MalformedXmlError("Document types, comments and CDATA are not accepted.")
    try:
        found = ElementTree.fromstring(body)  # noqa: S314 - see above.
    except (ElementTree.ParseError, ValueError) as error:
        raise MalformedXmlError(f"The body is not well-formed XML: {error}") from None
    if _local(found) != root:
        raise MalformedXmlError(f"The root element is {_local(found)}, expected {root}.")
    return found


def children(parent: ElementTree.Element) -> list[tuple[str, ElementTree.Element]]:
    """Returns the child elements with their names, whatever their namespace."""
    return [(_local(child), child) for child in parent]


def _local(found: ElementTree.Element) -> str:
    return found.tag.rpartition("}")[2]
