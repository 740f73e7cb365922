"""Listing of objects over the JSON API."""

from urllib.parse import quote

from buckettestbed.faults.listing import list_page
from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.fields import below
from buckettestbed.gcs.json.globs import compile_glob
from buckettestbed.gcs.json.resources import is_exact, object_resource
from buckettestbed.model.names import Selection
from buckettestbed.rest.tokens import name_in_token, token_after
from buckettestbed.serving.messages import Response

__all__ = ["after_token", "list_objects"]

_PAGE_LIMIT = 1000
"""*Source*: Cloud Storage, JSON API reference, Objects: list: at most 1,000 items a page, also the default. (Pages of
5,000, which GCS grants to some requests, are not documented there.)"""


async def list_objects(call: Call) -> Response:
    """Answers with one page of a bucket's objects. With `versions` too there is one of each name."""
    bucket, query = call.bucket(), call.query
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
        after=after_token(query.get("pageToken", "")),
        limit=call.integer("maxResults", _PAGE_LIMIT, most=_PAGE_LIMIT),
        fault=call.request.fault,
        selection=selection,
    )
    document: dict[str, object] = {"kind": "storage#objects"}
    if page.truncated:
        document["nextPageToken"] = token_after(page.last)
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


def after_token(token: str) -> str:
    """Returns the name that a page begins after whose token this is, empty for no token; raises JsonError (400)."""
    try:
        return name_in_token(token) if token else ""
    except ValueError:
        raise JsonError(
            400, f"Invalid page token: {quote(token[:80])}", reason="invalidParameter", parameter="pageToken"
        ) from None
