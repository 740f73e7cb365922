"""Listing pages as a client sees them with a fault: stale, repeated, left out, or empty."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial

from buckettestbed.faults.plan import Fault
from buckettestbed.model.names import ALL_NAMES, NamePage, Selection, SortedNames, list_names
from buckettestbed.model.objects import Bucket

__all__ = ["continues", "list_page"]

_CONTINUATIONS = ("continuation-token", "marker", "pageToken")
"""Query parameters that ask for a page after the first, of S3 and both of GCS's APIs."""

_WALK_ENTRIES = 1000
"""Entries looked at in one step while the page before another is looked for."""


def continues(query: Mapping[str, str]) -> bool:
    """Returns whether a listing's request asks for a page after the first."""
    return any(query.get(name) for name in _CONTINUATIONS)


def list_page(
    bucket: Bucket,
    *,
    prefix: str,
    delimiter: str,
    after: str,
    limit: int,
    fault: Fault | None,
    selection: Selection = ALL_NAMES,
) -> NamePage:
    """Returns one page of a bucket's names, as the request's fault has it.

    Without a fault, or with one that is not a listing's, it is `bucket.list`. With one it costs O(names that begin with
    the prefix).

    Args:
        bucket: whose names.
        prefix: plain text that a name must begin with.
        delimiter: text that ends a common prefix; empty for no rolling up.
        after: lists only entries greater than this; empty for all.
        limit: the most entries in the page.
        fault: the request's, or None.
        selection: which names are looked at.
    """
    kind = None if fault is None else fault.kind
    if fault is not None and kind == "stale_listing":
        names = SortedNames(_old_names(bucket, prefix, time.time() - (fault.rule.seconds or 0.0)))
        return list_names(names, prefix=prefix, delimiter=delimiter, after=after, limit=limit, selection=selection)
    if kind == "empty_page":
        return NamePage(names=[], common_prefixes=[], truncated=True, last=after)
    list_from = partial(bucket.list, prefix=prefix, delimiter=delimiter, limit=limit, selection=selection)
    if kind == "repeat_page":
        after = _start_of_page_before(bucket, prefix, delimiter, after, limit, selection)
    page = list_from(after=after)
    if kind != "skip_page":
        return page
    if not page.truncated:
        return NamePage(names=[], common_prefixes=[], truncated=False, last=after)
    return list_from(after=page.last)


def _old_names(bucket: Bucket, prefix: str, before_s: float) -> Iterator[str]:
    """Yields the names below the prefix whose objects were written before that time."""
    for name in bucket.names.from_name(prefix):
        if not name.startswith(prefix):
            return
        if bucket.objects[name].created_s < before_s:
            yield name


def _start_of_page_before(
    bucket: Bucket, prefix: str, delimiter: str, after: str, limit: int, selection: Selection
) -> str:
    """Returns the entry that the page before the one after `after` started after; empty for the beginning.

    A page that another follows is full, so the one before holds the `limit` entries up to `after`, wherever the listing
    was started. Hence no token needs to carry it, which the markers of version 1 could not.
    """
    latest: deque[str] = deque(maxlen=limit + 1)
    start, truncated = "", True
    while truncated and start < after:
        page = bucket.list(prefix=prefix, delimiter=delimiter, after=start, limit=_WALK_ENTRIES, selection=selection)
        latest.extend(entry for entry in sorted([*page.names, *page.common_prefixes]) if entry <= after)
        start, truncated = page.last, page.truncated
    return latest[0] if len(latest) > limit else ""
