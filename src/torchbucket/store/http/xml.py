"""The XML documents that S3 and Cloud Storage's XML API answer with."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

__all__ = [
    "MalformedAnswerError",
    "children",
    "document",
    "error_fields",
    "fields_of",
    "name_of",
    "parsed",
    "required",
    "text_of",
]


class MalformedAnswerError(ValueError):
    """The answer is no document that the provider would send."""


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree, and refuses a document type: no provider sends one, and entities are the way to attack parsers."""

    def doctype(self, name: str, _pubid: str | None, _system: str | None) -> None:
        raise MalformedAnswerError(f"the XML has a document type, {name!r}, which no provider sends")


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


def error_fields(body: bytes) -> dict[str, str]:
    """The elements of an error document, such as ``Code``; empty where the body is none."""
    try:
        root = parsed(body)
    except MalformedAnswerError:
        return {}
    return fields_of(root) if name_of(root) == "Error" else {}


def document(body: bytes, name: str) -> ElementTree.Element:
    """Read a document; raise ``MalformedAnswerError`` where it is none of that name."""
    root = parsed(body)
    if name_of(root) != name:
        raise MalformedAnswerError(f"expected the document {name}, got {name_of(root)}")
    return root


def text_of(body: bytes, root_name: str, element: str) -> str:
    """The text of one element below the root, whose own name is checked."""
    return required(fields_of(document(body, root_name)), element)
