"""What Cloud Storage's error answers mean and what to do about them."""

from __future__ import annotations

import json
from typing import Final, Protocol

from torchbucket.errors import (
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    TransportError,
    UnsupportedError,
)
from torchbucket.store.http.answers import shown
from torchbucket.store.http.xml import error_fields
from torchbucket.store.transport.operation import Again, Answer
from torchbucket.store.transport.retry import retry_after_s

__all__ = ["gcs_failure"]

# Source of the words: Cloud Storage documentation, "HTTP status and error codes" of the JSON API and of the XML API.
_THROTTLED: Final = {"rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded", "quotaExceeded", "SlowDown"}
_TRANSIENT: Final = {
    "backendError",
    "internalError",
    "uploadBrokenConnection",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    "OperationAborted",
    "BadDigest",
    "CrcMismatch",
    "IncompleteBody",
}
_PAYER: Final = {"UserProjectMissing", "UserProjectInvalid", "UserProjectInconsistent", "UserProjectAccessDenied"}
_DENIED: Final = (
    "the credentials do not allow it, or the object is missing and they do not allow listing; check the bucket's roles"
)
_PERMISSION: Final = {
    "accountDisabled": "the project's or the user's account is disabled",
    "AccountProblem": "the project's or the user's account has a problem; see the Google Cloud console",
    "AccountDisabled": "the project's or the user's account is disabled",
    "UserAccountDisabled": "the user's account is disabled",
    "domainPolicy": "a policy of the organisation forbids it",
    "organizationPolicy": "a policy of the organisation forbids it",
    "retentionPolicyNotMet": "the bucket's retention policy keeps the object for now",
    "RetentionPolicyNotMet": "the bucket's retention policy keeps the object for now",
    "ObjectUnderActiveHold": "the object is under a hold",
    "SecurityPolicyViolated": "a security policy of the project forbids it, such as VPC Service Controls",
}


class _MakeError(Protocol):
    def __call__(
        self, kind: type[StoreError], advice: str, *, where: str = ..., word: str | None = ...
    ) -> StoreError: ...


def gcs_failure(operation: str, uri: str, bucket_uri: str, answer: Answer, *, renewable: bool) -> Exception:
    """The error that an answer stands for: ``Again`` around it where another attempt may succeed.

    The code of a missing bucket is ``NoSuchBucket`` and of a missing object ``NoSuchKey``, in both APIs.

    Args:
        operation: the request's kind.
        uri: the object's address.
        bucket_uri: the bucket's address.
        answer: an answer whose status is no success.
        renewable: the token was refused, and another attempt may have a new one.
    """
    code, text = _said(answer)
    status = answer.status
    said = f"{operation} {uri}: "
    heard = f" (HTTP {status}" + (f", {code}" if code else "") + (f": {shown(text)}" if text else "") + ")"

    def error(kind: type[StoreError], advice: str, *, where: str = uri, word: str | None = code) -> StoreError:
        return kind(f"{said}{advice}{heard}", operation=operation, uri=where, status=status, code=word)

    after_s = retry_after_s(answer.headers.get("retry-after"))
    if status == 429 or code in _THROTTLED:
        advice = "the provider asks to slow down; lower concurrency, or begin with fewer requests and let them grow"
        return Again(error(ThrottledError, advice), after_s)
    if 300 <= status < 400 and status != 304:
        place = answer.headers.get("location", "another address")
        return error(StoreError, f"the server sends the request on to {shown(place)!r}; set StoreConfig.endpoint")
    if status == 401:
        advice = "the access token is missing, wrong or has ended; check the credentials"
        refusal = error(PermissionDeniedError, advice)
        return Again(refusal) if renewable else refusal
    if code in _PAYER or (status == 400 and "requester pays" in text.lower()):
        advice = "the bucket's requesters pay, and need a project of their own; set StoreConfig.user_project"
        return error(PermissionDeniedError, advice)
    if code in _TRANSIENT or status in (408, 409) or (status >= 500 and status != 501) or _is_damaged(status, text):
        return Again(error(TransportError, "the server could not do it; try again later"), after_s)
    if status == 404:
        return _missing(error, operation, bucket_uri, code, text)
    if status == 403:
        return error(PermissionDeniedError, _PERMISSION.get(code or "", _DENIED))
    if status in (304, 412):
        advice = "the object exists and was to be absent, or has another generation; head it again and decide anew"
        return error(PreconditionFailedError, advice)
    if status in (405, 501):
        return error(UnsupportedError, "the server does not support this request; check the endpoint")
    return error(StoreError, "the server refused the request; its own message follows")


def _missing(error: _MakeError, operation: str, bucket_uri: str, code: str | None, text: str) -> StoreError:
    # The JSON API has one word for both, and tells them apart in its text alone.
    if code == "NoSuchBucket" or "bucket does not exist" in text.lower():
        advice = f"there is no bucket {bucket_uri}; check its name and the endpoint"
        return error(NotFoundError, advice, where=bucket_uri, word="NoSuchBucket")
    if code == "NoSuchUpload":
        return error(
            NotFoundError, "the upload is not open any more: it was completed or aborted elsewhere; write again"
        )
    if operation in ("put_object", "begin_upload", "list_objects", "list_uploads"):
        return error(NotFoundError, "the server has no such bucket or path; check the bucket's name and the endpoint")
    if code == "NoSuchKey" or "no such object" in text.lower():
        return error(NotFoundError, "there is no such object; check the key, or list what is there", word="NoSuchKey")
    return error(NotFoundError, "there is no such object, or no such bucket; check both names")


def _is_damaged(status: int, text: str) -> bool:
    """Whether the JSON API says, in words only, that other bytes arrived than were sent."""
    return status == 400 and "doesn't match calculated" in text.lower()


def _said(answer: Answer) -> tuple[str | None, str]:
    """The provider's word and its message, from a document of either API or a plain text."""
    body = answer.body
    if body[:1] == b"{":
        return _json_said(body)
    fields = error_fields(body)
    if fields:
        return fields.get("Code"), " ".join(filter(None, (fields.get("Message"), fields.get("Details"))))
    return None, body[:400].decode(errors="replace").strip()


def _json_said(body: bytes) -> tuple[str | None, str]:
    try:
        document = json.loads(body).get("error", {})
        details = document.get("errors") or [{}]
        return details[0].get("reason"), str(document.get("message", ""))
    except (ValueError, AttributeError, IndexError, KeyError, TypeError, RecursionError):
        return None, ""
