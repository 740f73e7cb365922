"""Preconditions on reading and on writing.

*Source*: RFC 9110 section 13.2.2 for their order; Amazon S3 user guide, conditional requests, for writes:
`If-None-Match` only with `*`, `If-Match` with an ETag, 412 where it does not hold, 404 where `If-Match` finds no
object.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from bucketbench.testbed.model.objects import Check, StoredObject
from bucketbench.testbed.s3.errors import S3Error

__all__ = ["check_read", "range_applies", "write_check"]


def _seconds(header: str | None) -> float | None:
    """Returns a date header as seconds since the epoch, or None where it is absent or not a date (then it does not
    count)."""
    if header is None:
        return None
    try:
        return parsedate_to_datetime(header).timestamp()
    except ValueError:
        return None


def _matches(header: str, etag: str) -> bool:
    tags = (tag.strip().removeprefix("W/").strip('"') for tag in header.split(","))
    return header.strip() == "*" or etag in tags


def check_read(headers: Mapping[str, str], found: StoredObject, *, prefix: str = "") -> None:
    """Raises PreconditionFailed or NotModified where the headers' conditions on reading do not hold.

    `prefix` is put before the header names: `x-amz-copy-source-` for the conditions of a copy.
    """
    modified_s = float(int(found.modified_s))  # Dates in headers have whole seconds.
    if_match = headers.get(prefix + "if-match")
    if_none_match = headers.get(prefix + "if-none-match")
    unmodified_since_s = _seconds(headers.get(prefix + "if-unmodified-since"))
    modified_since_s = _seconds(headers.get(prefix + "if-modified-since"))
    if if_match is not None:
        if not _matches(if_match, found.etag):
            raise S3Error("PreconditionFailed", fields={"Condition": "If-Match"})
    elif unmodified_since_s is not None and modified_s > unmodified_since_s:
        raise S3Error("PreconditionFailed", fields={"Condition": "If-Unmodified-Since"})
    not_modified = S3Error("PreconditionFailed" if prefix else "NotModified")  # A copy never answers 304.
    if if_none_match is not None:
        if _matches(if_none_match, found.etag):
            raise not_modified
    elif modified_since_s is not None and modified_s <= modified_since_s:
        raise not_modified


def range_applies(headers: Mapping[str, str], found: StoredObject) -> bool:
    """Returns whether If-Range, where there is one, still allows a partial answer."""
    condition = headers.get("if-range")
    if condition is None:
        return True
    if (seconds := _seconds(condition)) is not None:
        return float(int(found.modified_s)) <= seconds
    return condition.strip().strip('"') == found.etag


def write_check(headers: Mapping[str, str]) -> Check | None:
    """Returns the check that a conditional write makes right before it takes effect, or None for an unconditional
    one."""
    if_match, if_none_match = headers.get("if-match"), headers.get("if-none-match")
    if if_match is None and if_none_match is None:
        return None
    if if_none_match is not None and if_none_match.strip() != "*":
        raise S3Error("NotImplemented", "If-None-Match on a write takes only *.", fields={"Header": "If-None-Match"})

    def check(current: StoredObject | None) -> None:
        if if_none_match is not None and current is not None:
            raise S3Error("PreconditionFailed", fields={"Condition": "If-None-Match"})
        if if_match is not None:
            if current is None:
                raise S3Error("NoSuchKey")
            if not _matches(if_match, current.etag):
                raise S3Error("PreconditionFailed", fields={"Condition": "If-Match"})

    return check
