"""The errors that answers without success stand for, as far as they mean the same at every provider."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from torchbucket.errors import (
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    TransportError,
    UnsupportedError,
)
from torchbucket.store.transport.operation import Again, Answer
from torchbucket.store.transport.retry import retry_after_s

__all__ = ["Refusal", "shown"]

# What looks like a token, key or signature: an error page may repeat the request that it answers.
_SECRET: Final = re.compile(r"(?i:bearer|signature=|token[\"':= ]+)\s*\S+|[A-Za-z0-9_\-.+/=]{48,}")


def shown(text: str) -> str:
    """At most 200 printable characters of what a server said, without what looks like a secret."""
    printable = "".join(character if character.isprintable() else " " for character in text[:1000])
    return _SECRET.sub("…", printable)[:200]


class Refusal:
    """An answer that is no success. One with status 200 may be one, too, by the document that it carries.

    Args:
        operation: the request's kind.
        uri: the object's address.
        bucket_uri: the bucket's address.
        answer: the answer.
        code: the provider's word for what went wrong. Where they are missing, a bucket is ``NoSuchBucket``, an object
            ``NoSuchKey`` and an upload ``NoSuchUpload``.
        text: the provider's message.
    """

    def __init__(
        self, operation: str, uri: str, bucket_uri: str, answer: Answer, code: str | None, text: str | None
    ) -> None:
        self.operation = operation
        self.uri = uri
        self.bucket_uri = bucket_uri
        self.status = answer.status
        self.code = code
        self.after_s = retry_after_s(answer.headers.get("retry-after"))
        heard = f"HTTP {answer.status}"
        heard += f", {code}" if code else ""
        self._heard = heard + (f": {shown(text)}" if text else "")

    def error(self, kind: type[StoreError], advice: str, *, uri: str | None = None) -> StoreError:
        """The error to give up with; ``uri`` is what is at fault, where that is not the object."""
        message = f"{self.operation} {self.uri}: {advice} ({self._heard})"
        return kind(message, operation=self.operation, uri=uri or self.uri, status=self.status, code=self.code)

    def again(self, kind: type[StoreError], advice: str) -> Again:
        """The error where another attempt may succeed, not before the time that the server asks for."""
        return Again(self.error(kind, advice), self.after_s)

    def missing_bucket(self) -> StoreError:
        """The error for a bucket that is not there."""
        advice = f"there is no bucket {self.bucket_uri}; check its name, region and endpoint"
        return self.error(NotFoundError, advice, uri=self.bucket_uri)

    def meaning(
        self, *, throttled: Collection[str], transient: Collection[str], denied: Mapping[str, str]
    ) -> Exception:
        """What the answer means by its code and status, where the provider gives them no meaning of its own.

        Args:
            throttled: codes that ask to slow down.
            transient: codes of what another attempt may mend.
            denied: codes of what is not allowed, and what to do; ``AccessDenied`` stands for all that have no entry.
        """
        code, status = self.code or "", self.status
        if code in throttled or status == 429:
            return self.again(
                ThrottledError,
                "the provider asks to slow down; lower concurrency, begin with fewer requests, or spread the keys over "
                "more prefixes",
            )
        if code in denied:
            return self.error(PermissionDeniedError, denied[code])
        if status == 507:
            return self.error(StoreError, "the server has no room left for it; make some, or write elsewhere")
        if code in transient or status in (408, 409) or (status >= 500 and status != 501):
            return self.again(TransportError, "the server could not answer; try again later")
        if code == "NoSuchBucket":
            return self.missing_bucket()
        if code == "NoSuchUpload":
            advice = "the upload is not open any more: it was completed or aborted elsewhere; write again"
            return self.error(NotFoundError, advice)
        if status == 404 and self.operation in ("put_object", "begin_upload", "list_objects", "list_uploads"):
            advice = "the server has no such bucket or path; check the bucket's name, the endpoint and path_style"
            return self.error(NotFoundError, advice)
        if status == 404:
            advice = "there is no such object; check bucket and key, or list what is there"
            return self.error(NotFoundError, advice)
        if status in (401, 403):
            return self.error(PermissionDeniedError, denied["AccessDenied"])
        if status in (304, 412):
            advice = "the object exists and was to be absent, or has another version; head it again and decide anew"
            return self.error(PreconditionFailedError, advice)
        if status in (405, 501):
            return self.error(UnsupportedError, "the server does not support this request; check the endpoint")
        return self.error(StoreError, "the server refused the request; its own message follows")
