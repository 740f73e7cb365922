"""What S3's error answers mean and what to do about them."""

from __future__ import annotations

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
from torchbucket.store.http.answers import shown
from torchbucket.store.http.xml import error_fields
from torchbucket.store.s3.access import Access
from torchbucket.store.transport.operation import Again, Answer
from torchbucket.store.transport.retry import retry_after_s

__all__ = ["s3_failure"]

# Source of the codes: S3 API Reference, "Error responses".
_THROTTLED: Final = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "TooManyRequests",
}
_TRANSIENT: Final = {
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    "OperationAborted",
    "BadDigest",
    "IncompleteBody",
    "ConditionalRequestConflict",
}
_PERMISSION: Final = {
    "AccessDenied": "the credentials do not allow it, or the object is missing and they do not allow listing; check "
    "the bucket's and the user's policies (a requester-pays bucket needs requester_pays=True)",
    "AllAccessDisabled": "the bucket is disabled",
    "InvalidAccessKeyId": "the access key is unknown here; check AWS_ACCESS_KEY_ID, the profile and the endpoint",
    "SignatureDoesNotMatch": "the secret key does not fit the access key; check AWS_SECRET_ACCESS_KEY and the profile",
    "ExpiredToken": "the session's credentials have expired; get new ones (such as by `aws sso login`) and try again",
    "TokenRefreshRequired": "the session's credentials must be refreshed; get new ones and try again",
    "InvalidToken": "the session token does not fit the access key; check AWS_SESSION_TOKEN, which may be left over",
    "RequestTimeTooSkewed": "this machine's clock is off by more than 15 minutes; set it (such as by NTP)",
    "InvalidObjectState": "the object is archived; restore it first",
}
_REGION: Final = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "Redirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}


def s3_failure(operation: str, uri: str, bucket_uri: str, answer: Answer, access: Access) -> Exception:
    """Turn an answer that is no success into ``Again`` around the error, or into the error to give up with.

    Args:
        operation: the request's kind.
        uri: the object's address.
        bucket_uri: the bucket's address.
        answer: the answer; one with status 200 may carry an error document.
        access: told of credentials that were refused.
    """
    fields = error_fields(answer.body)
    code = fields.get("Code")
    status = answer.status
    said = f"{operation} {uri}: "
    heard = (
        f" (HTTP {status}"
        + (f", {code}" if code else "")
        + (f": {shown(fields['Message'])}" if fields.get("Message") else "")
    )
    heard += ")"

    def error(kind: type[StoreError], advice: str, *, where: str = uri) -> StoreError:
        return kind(f"{said}{advice}{heard}", operation=operation, uri=where, status=status, code=code)

    after_s = retry_after_s(answer.headers.get("retry-after"))
    if code in _THROTTLED or status == 429 or (status == 503 and code in (None, "ServiceUnavailable")):
        advice = "the provider asks to slow down; lower concurrency, or spread the keys over more prefixes"
        return Again(error(ThrottledError, advice), after_s)
    region = access.place().region
    right_region = fields.get("Region") or answer.headers.get("x-amz-bucket-region")
    if code in _REGION or status in (301, 302, 307, 308) or (status == 400 and right_region not in (None, region)):
        if right_region is not None and access.follow(right_region):
            return Again(error(StoreError, f"the bucket's region is {right_region!r}, where it is asked for now"))
        advice = "the bucket is reached by another region or endpoint"
        if right_region is not None and right_region != region:
            named = repr(shown(right_region))
            advice = f"the bucket's region is {named}, not {region!r}; set StoreConfig(region={named})"
        elif fields.get("Endpoint"):
            advice += f"; the server names {shown(fields['Endpoint'])}"
        return error(StoreError, advice)
    if status in (400, 401, 403) and access.refused(code):
        return Again(error(PermissionDeniedError, "the session's credentials have expired and are being renewed"))
    if code in _PERMISSION:
        return error(PermissionDeniedError, _PERMISSION[code])
    if code in _TRANSIENT or status == 408 or (status >= 500 and status != 501):
        return Again(error(TransportError, "the server could not answer; try again later"), after_s)
    if code == "NoSuchBucket":
        return error(
            NotFoundError, f"there is no bucket {bucket_uri}; check its name, region and endpoint", where=bucket_uri
        )
    if code == "NoSuchUpload":
        return error(
            NotFoundError, "the upload is not open any more: it was completed or aborted elsewhere; write again"
        )
    if status == 404 and operation in ("put_object", "begin_upload", "list_objects", "list_uploads"):
        return error(NotFoundError, "the server has no such bucket or path; check the endpoint, path_style and the key")
    if status == 404:
        return error(NotFoundError, "there is no such object; check the key, or list what is there")
    if status in (401, 403):
        return error(PermissionDeniedError, _PERMISSION["AccessDenied"])
    if status == 412:
        advice = (
            "the object exists and if_absent was asked for, or it was changed; delete it or write without if_absent"
        )
        return error(PreconditionFailedError, advice)
    if status in (405, 501):
        return error(UnsupportedError, "the server does not support this request; check the endpoint")
    return error(StoreError, "the server refused the request; its own message follows")
