"""Preconditions of HTTP on reading. *Source*: RFC 9110 section 13.2.2 for their order."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.errors import RestError

__all__ = ["check_read", "etag_matches", "range_applies"]


def _seconds(header: str | None) -> float | None:
    """Returns a date header as seconds since the epoch, or None where it is absent or not a date (then it does not
    count)."""
    if header is None:
        return None
    try:
        return parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):  # A year or a zone too large for C is an overflow.
        return None


def etag_matches(header: str, etag: str) -> bool:
    """Returns whether an If-Match or If-None-Match header names the ETag, or any by `*`."""
    tags = (tag.strip().removeprefix("W/").strip('"') for tag in header.split(","))
    return header.strip() == "*" or etag in tags


def check_read(headers: Mapping[str, str], found: StoredObject, *, prefix: str = "") -> None:
    """Raises PreconditionFailed or NotModified where the headers' conditions on reading do not hold.

    `prefix` is put before the header names: `x-amz-copy-source-` for the conditions of a copy in S3.
    """
    modified_s = float(int(found.modified_s))  # Dates in headers have whole seconds.
    if_match = headers.get(prefix + "if-match")
    if_none_match = headers.get(prefix + "if-none-match")
    unmodified_since_s = _seconds(headers.get(prefix + "if-unmodified-since"))
    modified_since_s = _seconds(headers.get(prefix + "if-modified-since"))
    if if_match is not None:
        if not etag_matches(if_match, found.etag):
            raise RestError("PreconditionFailed", fields={"Condition": "If-Match"})
    elif unmodified_since_s is not None and modified_s > unmodified_since_s:
        raise RestError("PreconditionFailed", fields={"Condition": "If-Unmodified-Since"})
    not_modified = "PreconditionFailed" if prefix else "NotModified"  # A copy never answers 304.
    if if_none_match is not None:
        if etag_matches(if_none_match, found.etag):
            raise RestError(not_modified, fields={"Condition": "If-None-Match"})
    elif modified_since_s is not None and modified_s <= modified_since_s:
        raise RestError(not_modified, fields={"Condition": "If-Modified-Since"})


def range_applies(headers: Mapping[str, str], found: StoredObject) -> bool:
    """Returns whether If-Range, where there is one, still allows a partial answer."""
    condition = headers.get("if-range")
    if condition is None:
        return True
    if (seconds := _seconds(condition)) is not None:
        return float(int(found.modified_s)) <= seconds
    return condition.strip().strip('"') == found.etag
