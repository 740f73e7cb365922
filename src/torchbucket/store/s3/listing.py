"""The pages of ListObjectsV2, read into columns.

A listing's speed is the speed of this module: a page of 1,000 names is on the way for some milliseconds and takes a
general XML parser as long again. So entries are matched by one pattern, and only what the pattern does not know word by
word goes through the parser.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from torchbucket.store.http.dates import IsoTimes
from torchbucket.store.http.xml import MalformedAnswerError, children, fields_of, name_of, parsed, required
from torchbucket.store.protocol import ListedPage

__all__ = ["listed_page"]

_OPEN: Final = "<Contents>"
_CLOSE: Final = "</Contents>"

_OWNER: Final = "(?:<Owner>(?:<ID>[^<&]*+</ID>)?+(?:<DisplayName>[^<&]*+</DisplayName>)?+</Owner>)?+"

# One entry as S3, moto, MinIO and Ceph write it, without markup in its texts. What it repeats is possessive, so that
# matching is linear in the text whatever a server sends.
# Source of the order: Amazon S3 API reference, ListObjectsV2, response syntax; Ceph has the owner last.
_ENTRY: Final = re.compile(
    "<Contents>"
    "<Key>([^<&]++)</Key>"
    "<LastModified>([^<&]*+)</LastModified>"
    "<ETag>([^<&]*+)</ETag>"
    "(?:<ChecksumAlgorithm>[^<&]*+</ChecksumAlgorithm>)*+"
    "(?:<ChecksumType>[^<&]*+</ChecksumType>)?+"
    "<Size>([0-9]++)</Size>"
    f"{_OWNER}(?:<StorageClass>[^<&]*+</StorageClass>)?+{_OWNER}"
    "</Contents>"
)


def listed_page(body: bytes, *, start_after: str) -> tuple[ListedPage, str | None]:
    """Read a page of ListObjectsV2 that was asked for with ``encoding-type=url``, and the token of the next page.

    Raises:
        MalformedAnswerError: the answer is no such page, or a name in it is no UTF-8.
    """
    text = _text(body)
    entries = _entries(text)
    if entries is None:
        return _parsed_page(body, start_after)
    # What is around the entries is a small document of its own, and is read by the parser.
    around = f"{text[: text.index(_OPEN)]}{text[text.rindex(_CLOSE) + len(_CLOSE) :]}"
    keys, modified, tags, sizes = zip(*entries, strict=True)
    return _page(parsed(around.encode()), list(keys), list(map(int, sizes)), list(tags), list(modified), start_after)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise MalformedAnswerError(f"the listing is not UTF-8: {error.reason} at byte {error.start}") from None


def _entries(text: str) -> list[tuple[str, str, str, str]] | None:
    """Key, time, ETag and size of each entry; None where the parser has to read them."""
    opened = text.count(_OPEN)
    if not opened or "<!" in text:  # A comment, CDATA or a document type could hide an entry, or look like one.
        return None
    entries = _ENTRY.findall(text.replace("&quot;", '"'))  # Every ETag has two.
    # As many matches as beginnings, each beginning but the first right after an end: nothing lies between entries.
    contiguous = text.count(_CLOSE + _OPEN) == opened - 1 and text.count(_CLOSE) == opened
    return entries if contiguous and len(entries) == opened else None


def _parsed_page(body: bytes, start_after: str) -> tuple[ListedPage, str | None]:
    root = parsed(body)
    keys, sizes_bytes, tags, modified = [], [], [], []
    for fields in children(root, "Contents"):
        keys.append(required(fields, "Key"))
        sizes_bytes.append(_size(required(fields, "Size")))
        tags.append(fields.get("ETag", ""))
        modified.append(fields.get("LastModified", ""))
    return _page(root, keys, sizes_bytes, tags, modified, start_after)


def _page(
    root: Element, keys: list[str], sizes_bytes: list[int], tags: list[str], modified: list[str], start_after: str
) -> tuple[ListedPage, str | None]:
    if name_of(root) != "ListBucketResult":
        raise MalformedAnswerError(f"expected the document ListBucketResult, got {name_of(root)}")
    top = fields_of(root)
    token = None
    if top.get("IsTruncated") == "true":
        token = top.get("NextContinuationToken")
        if not token:
            raise MalformedAnswerError("the listing says that it goes on, but not how to ask for the rest")
    names = _decoded(keys) if top.get("EncodingType") == "url" else keys
    page = ListedPage(
        keys=names,
        sizes_bytes=sizes_bytes,
        versions=[tag or None for tag in tags],
        complete=token is None,
        resume_after=names[-1] if names else start_after,
        modified_s=IsoTimes(modified),
    )
    return page, token


def _decoded(keys: list[str]) -> list[str]:
    try:
        return [unquote_plus(key, errors="strict") if "%" in key or "+" in key else key for key in keys]
    except UnicodeDecodeError as error:
        raise MalformedAnswerError(f"the listing has a name that does not encode UTF-8: {error.object!r}") from None


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise MalformedAnswerError(f"the listing has the size {text!r}")
    return int(text)
