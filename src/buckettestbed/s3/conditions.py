"""Preconditions on writing and deleting. *Source*: Amazon S3 user guide, conditional requests: `If-None-Match` only
with `*`, `If-Match` with an ETag, 412 where it does not hold, 404 where `If-Match` finds no object to replace."""

from collections.abc import Mapping

from buckettestbed.model.objects import Check, StoredObject
from buckettestbed.rest.conditions import etag_matches
from buckettestbed.s3.errors import S3Error

__all__ = ["delete_check", "write_check"]


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
            if not etag_matches(if_match, current.etag):
                raise S3Error("PreconditionFailed", fields={"Condition": "If-Match"})

    return check


def delete_check(etag: str | None) -> Check | None:
    """Returns the check that a conditional delete makes right before it takes effect, or None for an unconditional one.

    *Source*: Amazon S3 API reference, DeleteObject, If-Match: 412 where the ETag is another, no error where there is no
    object.

    Args:
        etag: of the If-Match header or the batch's entry, or None.
    """
    if etag is None:
        return None

    def check(current: StoredObject | None) -> None:
        if current is not None and not etag_matches(etag, current.etag):
            raise S3Error("PreconditionFailed", fields={"Condition": "If-Match"})

    return check
