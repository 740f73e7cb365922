"""What Cloud Storage says of an object: resources of the JSON API, headers of the XML API, and the CRC-32C in both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.http.xml import MalformedAnswerError
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Answer

__all__ = ["CRC32C", "RESOURCE_FIELDS", "StoredObject", "read_json", "stored_crc32c", "stored_object"]

CRC32C: Final = ALGORITHMS["crc32c"]
"""The one checksum that every object has. *Source*: Cloud Storage documentation, "Data validation"."""

RESOURCE_FIELDS: Final = "name,size,generation,updated,crc32c"
"""The fields of a resource that ``stored_object`` reads, for a partial answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredObject:
    """An object's description and, where the provider told it, its CRC-32C in base64."""

    info: ObjectInfo
    crc32c: str | None


def stored_crc32c(answer: Answer) -> str | None:
    """The CRC-32C in an answer's ``x-goog-hash`` headers, that of the whole object also where a range was asked for."""
    for entry in answer.headers.get("x-goog-hash", "").split(","):
        name, _, value = entry.strip().partition("=")
        if name == "crc32c":
            return value
    return None


def read_json(body: bytes) -> dict[str, Any]:
    """Read an answer's document; raise ``MalformedAnswerError`` where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError(f"the answer is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MalformedAnswerError(f"expected a JSON object, got a {type(document).__name__}")
    return document


def stored_object(resource: object, key: str) -> StoredObject:
    """Read an object's resource; raise ``MalformedAnswerError`` where it is none, or another object's."""
    if not isinstance(resource, dict):
        raise MalformedAnswerError("the answer has no resource of an object")
    name, generation, crc32c = resource.get("name"), resource.get("generation"), resource.get("crc32c")
    if name != key:
        raise MalformedAnswerError(f"the answer describes {name!r}")
    try:
        size_bytes = int(resource["size"])
    except (KeyError, TypeError, ValueError):
        raise MalformedAnswerError("the answer has no size of the object") from None
    if not isinstance(generation, str | None) or not isinstance(crc32c, str | None):
        raise MalformedAnswerError("the object's generation or crc32c is no text")
    info = ObjectInfo(
        key=key, size_bytes=size_bytes, version=generation, last_modified_s=_seconds(resource.get("updated"))
    )
    return StoredObject(info=info, crc32c=crc32c)


def _seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None
