"""Listing of objects over the JSON API."""

import base64
import binascii
from urllib.parse import quote

from buckettestbed.faults.listing import list_page
from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.fields import below
from buckettestbed.gcs.json.globs import compile_glob
from buckettestbed.gcs.json.resources import is_exact, object_resource
from buckettestbed.model.names import Selection
from buckettestbed.serving.messages import Response

__all__ = ["from_token", "list_objects", "to_token"]

_PAGE_LIMIT = 1000
"""*Source*: Cloud Storage, JSON API reference, Objects: list: at most 1,000 items a page, also the default. (Pages of
5,000, which GCS grants to some requests, are not documented there.)"""

_UNSERVED = ("softDeleted", "filter")
"""Parameters that ask for what the testbed does not keep."""


async def list_objects(call: Call) -> Response:
    """Answers with one page of a bucket's objects. With `versions` too there is one of each name."""
    bucket, query = call.bucket(), call.query
    for name in _UNSERVED:
        if query.get(name, "").lower() not in ("", "false"):
            raise JsonError(501, f"The testbed does not list by {name}.", parameter=name)
    delimiter, glob = query.get("delimiter", ""), query.get("matchGlob", "")
    if glob and delimiter not in ("", "/"):
        raise JsonError(400, "With matchGlob the delimiter can only be '/'.", parameter="delimiter")
    matches = compile_glob(glob).fullmatch if glob else None
    selection = Selection(
        start=query.get("startOffset", ""),
        stop=query.get("endOffset", ""),
        keep=None if matches is None else lambda name: matches(name) is not None,
        with_markers=query.get("includeTrailingDelimiter", "").lower() == "true",
    )
    page = list_page(
        bucket,
        prefix=query.get("prefix", ""),
        delimiter=delimiter,
        after=from_token(query.get("pageToken", "")),
        limit=call.integer("maxResults", _PAGE_LIMIT, most=_PAGE_LIMIT),
        fault=call.request.fault,
        selection=selection,
    )
    document: dict[str, object] = {"kind": "storage#objects"}
    if page.truncated:
        document["nextPageToken"] = to_token(page.last)
    if page.common_prefixes:
        document["prefixes"] = page.common_prefixes
    fields = call.fields
    if not page.names or not (fields is None or "items" in fields or "*" in fields):
        return call.answer(document)
    wanted = below(fields, "items")
    items = [
        object_resource(bucket.name, bucket.objects[name], call.endpoint, None if wanted is None else wanted.keys())
        for name in page.names
    ]
    if wanted is not None and is_exact(wanted):
        return call.answer(document, selected={"items": items})
    return call.answer({**document, "items": items})


def to_token(name: str) -> str:
    """Returns the token of the page that begins after a name."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def from_token(token: str) -> str:
    """Returns the name that a page's token holds, empty for no token; raises JsonError (400)."""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise JsonError(
            400, f"Invalid page token: {quote(token[:80])}", reason="invalidParameter", parameter="pageToken"
        ) from None
