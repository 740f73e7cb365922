"""The documents of Cloud Storage's JSON API that describe objects, one or a page of them."""

from __future__ import annotations

import json
from typing import Any, Final

from torchbucket.store.http.dates import iso_seconds
from torchbucket.store.http.xml import MalformedAnswerError
from torchbucket.store.protocol import ListedPage, ObjectInfo

__all__ = ["PAGE_FIELDS", "RESOURCE_FIELDS", "described", "listed_page", "read_json"]

RESOURCE_FIELDS: Final = "name,size,generation,updated"
"""The fields of a resource that ``described`` reads, for a partial answer."""

PAGE_FIELDS: Final = "nextPageToken,items(name,size,generation)"
"""Of the thirty fields of an object only these, about 100 of 1,000 bytes. *Source*: Cloud Storage JSON API, "Partial
response"."""


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


def listed_page(body: bytes, *, start_after: str) -> tuple[ListedPage, str | None]:
    """Read a page, and the token of the next page.

    It may begin with ``start_after`` itself, from which on it was asked for; that is left out.

    Raises:
        MalformedAnswerError: the answer is no such page.
    """
    page = read_json(body)
    items, token = page.get("items", []), page.get("nextPageToken")
    if not isinstance(items, list) or not (token is None or isinstance(token, str)):
        raise MalformedAnswerError("the listing's items are no list, or its token is no text")
    try:
        keys = [item["name"] for item in items]
        sizes = [int(item["size"]) for item in items]
        versions = [item.get("generation") for item in items]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedAnswerError(f"an item of the listing lacks its name or size: {error!r}") from None
    _check(keys, sizes, versions)
    if keys and keys[0] == start_after:
        del keys[0], sizes[0], versions[0]
    listed = ListedPage(
        keys=keys,
        sizes_bytes=sizes,
        versions=versions,
        complete=not token,
        resume_after=keys[-1] if keys else start_after,
    )
    return listed, token or None


def _check(keys: list[Any], sizes: list[int], versions: list[Any]) -> None:
    if not all(isinstance(key, str) for key in keys):
        raise MalformedAnswerError("the listing has a name that is no text")
    if sizes and min(sizes) < 0:
        raise MalformedAnswerError(f"the listing has the size {min(sizes)}")
    if not all(version is None or isinstance(version, str) for version in versions):
        raise MalformedAnswerError("the listing has a generation that is no text")
