"""The pages of the JSON API's listing, read into columns."""

from __future__ import annotations

from typing import Any, Final

from torchbucket.store.gcs.resources import read_json
from torchbucket.store.http.xml import MalformedAnswerError
from torchbucket.store.protocol import ListedPage

__all__ = ["PAGE_FIELDS", "listed_page"]

PAGE_FIELDS: Final = "nextPageToken,items(name,size,generation)"
"""Of the thirty fields of an object only these, about 100 of 1,000 bytes. *Source*: Cloud Storage JSON API, "Partial
response"."""


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
