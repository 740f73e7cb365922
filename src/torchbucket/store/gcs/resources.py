"""The documents of Cloud Storage's JSON API that describe an object."""

from __future__ import annotations

import json
from typing import Any, Final

from torchbucket.store.http.dates import iso_seconds
from torchbucket.store.http.xml import MalformedAnswerError
from torchbucket.store.protocol import ObjectInfo

__all__ = ["RESOURCE_FIELDS", "described", "read_json"]

RESOURCE_FIELDS: Final = "name,size,generation,updated"
"""The fields of a resource that ``described`` reads, for a partial answer."""


def read_json(body: bytes) -> dict[str, Any]:
    """Read an answer's document; raise ``MalformedAnswerError`` where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError(f"the answer is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MalformedAnswerError(f"expected a JSON object, got a {type(document).__name__}")
    return document


def described(resource: object, key: str) -> ObjectInfo:
    """Read an object's resource; raise ``MalformedAnswerError`` where it is none, or another object's."""
    if not isinstance(resource, dict):
        raise MalformedAnswerError("the answer has no resource of an object")
    name, generation = resource.get("name"), resource.get("generation")
    if name != key:
        raise MalformedAnswerError(f"the answer describes {name!r}")
    try:
        size_bytes = int(resource["size"])
    except (KeyError, TypeError, ValueError):
        raise MalformedAnswerError("the answer has no size of the object") from None
    if not isinstance(generation, str | None):
        raise MalformedAnswerError("the object's generation is no text")
    modified_s = iso_seconds(resource.get("updated"))
    return ObjectInfo(key=key, size_bytes=size_bytes, version=generation, last_modified_s=modified_s)
