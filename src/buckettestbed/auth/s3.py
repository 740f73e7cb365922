"""Who sent an S3 request, by its signature, and whether they may do what it asks. *Source* of codes and order: Amazon
S3 API reference, error responses and authenticating requests."""

import hmac
import re
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import unquote_to_bytes

from buckettestbed.auth.canonical import canonical_request, percent_encoded, string_to_sign
from buckettestbed.auth.credentials import AccessKey
from buckettestbed.auth.permissions import anonymous_may, is_write
from buckettestbed.auth.presented import (
    AWS4,
    MalformedSignatureError,
    PresentedSignature,
    from_header,
    from_query,
)
from buckettestbed.auth.sigv2 import expiry_s, presigned_signature, presigned_text
from buckettestbed.auth.sigv4 import SignedChunks, hexadecimal_signature, signing_key
from buckettestbed.s3.errors import S3Error
from buckettestbed.s3.service import S3Service
from buckettestbed.serving.dialect import Operation
from buckettestbed.serving.messages import Request, Response

__all__ = ["S3Authenticator"]

_SKEW_LIMIT_S = 900
"""*Source*: Amazon S3 API reference, RequestTimeTooSkewed: 15 minutes."""

_PAYLOADS = re.compile(
    r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER|STREAMING-AWS4-HMAC-SHA256-PAYLOAD(-TRAILER)?"
)
"""*Source*: Amazon S3 API reference, x-amz-content-sha256; version 4A (ECDSA) is not served."""

_QUERY_MARKS = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature")


class S3Authenticator:
    """Lets signed requests through, and unsigned ones that read a public bucket.

    Args:
        service: phrases refusals.
        keys: access keys that are known.
        read_only: ids of those that may change nothing.
        public_buckets: buckets that anyone may read.
        region: returns the region that requests for a bucket must be signed for, None where any will do.
        now: the time in seconds since the epoch.
    """

    def __init__(
        self,
        service: S3Service,
        *,
        keys: Iterable[AccessKey],
        read_only: Collection[str] = (),
        public_buckets: Collection[str] = (),
        region: Callable[[str], str | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._service = service
        self._keys = {key.access_key_id: key for key in keys}
        self._read_only = frozenset(read_only)
        self._public_buckets = frozenset(public_buckets)
        self._region = region
        self._now = now

    def endpoint(self, request: Request) -> Operation | None:
        """Returns None: S3 has no address of its own for credentials."""
        del request
        return None

    async def answer(self, request: Request, operation: Operation) -> Response | None:
        """Returns a refusal, or None for a request that may go on."""
        try:
            key = self._sender(request, operation)
            if key is None:
                if not anonymous_may(operation, self._public_buckets):
                    raise S3Error("AccessDenied")
            elif key.access_key_id in self._read_only:
                request.may_write = False
                if is_write(request, operation):
                    raise S3Error(
                        "AccessDenied",
                        f"The access key {key.access_key_id} may only read, and {operation.name} changes something.",
                    )
        except S3Error as error:
            return self._service.refusal(request, error)
        return None

    def _sender(self, request: Request, operation: Operation) -> AccessKey | None:
        """Returns the access key that a request is signed with, None for one that is not signed."""
        authorization = request.headers.get("authorization")
        in_query = any(name in request.query for name in _QUERY_MARKS)
        if authorization is not None and in_query:
            raise S3Error(
                "InvalidArgument", "A request is signed in its Authorization header or in its query, not both."
            )
        if (authorization or "").startswith("AWS "):
            raise S3Error("InvalidRequest", "Signature version 2 is taken of presigned addresses only; use version 4.")
        if "AWSAccessKeyId" in request.query and authorization is None:
            return self._verified_by_version_2(request, operation)
        if in_query:
            return self._verified(request, operation, self._from_query(request))
        if authorization is not None:
            return self._verified(request, operation, self._from_header(request, authorization))
        return None

    def _from_query(self, request: Request) -> PresentedSignature:
        try:
            presented = from_query(request.query, AWS4)
        except MalformedSignatureError as error:
            raise S3Error("AuthorizationQueryParametersError", f"The query is malformed: {error}.") from None
        return presented

    def _from_header(self, request: Request, authorization: str) -> PresentedSignature:
        if not authorization.startswith(AWS4.algorithm + " "):
            raise S3Error(
                "InvalidArgument",
                f"The Authorization header is of an unsupported type; use {AWS4.algorithm}.",
                fields={"ArgumentName": "Authorization"},
            )
        try:
            return from_header(authorization, _timestamp(request), AWS4)
        except MalformedSignatureError as error:
            raise S3Error("AuthorizationHeaderMalformed", f"The Authorization header is malformed: {error}.") from None

    def _verified(self, request: Request, operation: Operation, presented: PresentedSignature) -> AccessKey:
        """Returns the access key of a signature after checking all that S3 checks."""
        token = request.headers.get("x-amz-security-token") or request.query.get("X-Amz-Security-Token")
        now_s = self._now()
        key = self._key(presented.identity, token, now_s)
        self._check_region(operation, presented)
        _check_time(presented, now_s)
        unsigned = [
            name for name in request.headers if name.startswith("x-amz-") and name not in presented.signed_headers
        ]
        if unsigned:
            raise S3Error(
                "AccessDenied",
                "The request has x-amz- headers that are not signed.",
                fields={"HeadersNotSigned": ", ".join(unsigned)},
            )
        self._check_signature(request, presented, key)
        return key

    def _verified_by_version_2(self, request: Request, operation: Operation) -> AccessKey:
        """Returns the access key of an address that was presigned by version 2."""
        query, now_s = request.query, self._now()
        key = self._key(query["AWSAccessKeyId"], query.get("x-amz-security-token"), now_s)
        expires_s = expiry_s(query)
        if expires_s is None or "Signature" not in query:
            raise S3Error("AccessDenied", "Query-string authentication needs AWSAccessKeyId, Expires and Signature.")
        if expires_s < now_s:
            raise S3Error(
                "AccessDenied",
                "Request has expired",
                fields={"Expires": _iso(expires_s), "ServerTime": _iso(now_s)},
            )
        in_host = unquote_to_bytes(request.raw_path)[1:] == operation.key.encode()
        text = presigned_text(request, operation.bucket if in_host else "")
        expected = presigned_signature(key.secret_access_key, text)
        if not hmac.compare_digest(expected.encode(), query["Signature"].encode()):
            raise _mismatch(key, text, query["Signature"])
        return key

    def _key(self, identity: str, token: str | None, now_s: float) -> AccessKey:
        """Returns the access key of an id and a session token, which may be None."""
        key = self._keys.get(identity)
        if key is None or (key.session_token is not None and token is None):
            # S3 knows a temporary access key only together with its session token.
            raise S3Error("InvalidAccessKeyId", fields={"AWSAccessKeyId": identity})
        if token is not None and not hmac.compare_digest(token.encode(), (key.session_token or "").encode()):
            raise S3Error("InvalidToken")
        if key.expires_s is not None and key.expires_s <= now_s:
            raise S3Error("ExpiredToken")
        return key

    def _check_region(self, operation: Operation, presented: PresentedSignature) -> None:
        expected = self._region(operation.bucket)
        if expected is not None and presented.region != expected:
            code = (
                "AuthorizationHeaderMalformed" if presented.expires_s is None else "AuthorizationQueryParametersError"
            )
            raise S3Error(
                code,
                f"The request is signed for the region {presented.region!r}, expected {expected!r}.",
                fields={"Region": expected},
                headers=[(b"x-amz-bucket-region", expected.encode())],
            )

    def _check_signature(self, request: Request, presented: PresentedSignature, key: AccessKey) -> None:
        payload = _payload(request, presented)
        canonical = canonical_request(
            method=request.method,
            raw_path=request.raw_path,
            raw_query=request.raw_query,
            headers=request.headers,
            signed_headers=presented.signed_headers,
            payload=payload,
            signature_parameter=AWS4.parameter("Signature"),
        )
        text = string_to_sign(
            algorithm=AWS4.algorithm, timestamp=presented.timestamp, scope=presented.scope, canonical=canonical
        )
        secret = signing_key(key.secret_access_key, presented)
        if not hmac.compare_digest(hexadecimal_signature(secret, text), presented.signature):
            raise _mismatch(key, text, presented.signature, canonical)
        if payload.startswith("STREAMING-AWS4"):
            request.chunk_signatures = SignedChunks(secret, presented, with_trailer=payload.endswith("-TRAILER"))


def _mismatch(key: AccessKey, text: bytes, provided: str, canonical: bytes | None = None) -> S3Error:
    """Returns the refusal of a wrong signature, which shows what was to be signed, but no session token."""
    fields = {
        "AWSAccessKeyId": key.access_key_id,
        "StringToSign": text.decode("utf-8", errors="replace"),
        "SignatureProvided": provided,
    }
    if canonical is not None:
        fields["CanonicalRequest"] = canonical.decode("utf-8", errors="replace")
    if key.session_token is not None:
        for form in (key.session_token, percent_encoded(key.session_token.encode()).decode()):
            fields = {name: value.replace(form, "(session token)") for name, value in fields.items()}
    return S3Error("SignatureDoesNotMatch", fields=fields)


def _timestamp(request: Request) -> str:
    """Returns the time of signing of a request signed in its header."""
    stated = request.headers.get("x-amz-date")
    if stated is not None:
        return stated
    try:
        return parsedate_to_datetime(request.headers.get("date", "")).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    except (ValueError, OverflowError):  # A year or a zone too large for C is an overflow.
        raise S3Error("AccessDenied", "A signed request needs an x-amz-date header, or a Date.") from None


def _check_time(presented: PresentedSignature, now_s: float) -> None:
    """Raises for a request signed at another time, or a presigned address before or after its validity."""
    server_time = _iso(now_s)
    if presented.expires_s is None:
        if abs(now_s - presented.signed_s) > _SKEW_LIMIT_S:
            raise S3Error(
                "RequestTimeTooSkewed",
                fields={
                    "RequestTime": presented.timestamp,
                    "ServerTime": server_time,
                    "MaxAllowedSkewMilliseconds": str(1000 * _SKEW_LIMIT_S),
                },
            )
    elif presented.signed_s > now_s + _SKEW_LIMIT_S:
        raise S3Error(
            "AccessDenied",
            "Request is not yet valid",
            fields={"X-Amz-Date": presented.timestamp, "ServerTime": server_time},
        )
    elif presented.signed_s + presented.expires_s < now_s:
        raise S3Error(
            "AccessDenied",
            "Request has expired",
            fields={
                "X-Amz-Expires": str(presented.expires_s),
                "Expires": _iso(presented.signed_s + presented.expires_s),
                "ServerTime": server_time,
            },
        )


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _payload(request: Request, presented: PresentedSignature) -> str:
    """Returns what stands for the body in the canonical request."""
    stated = request.headers.get("x-amz-content-sha256")
    if presented.expires_s is not None:
        stated = stated or request.query.get("X-Amz-Content-Sha256") or "UNSIGNED-PAYLOAD"
    if stated is None:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    if not _PAYLOADS.fullmatch(stated):
        raise S3Error(
            "InvalidArgument",
            "x-amz-content-sha256 must be a SHA-256 in lower-case hexadecimal, UNSIGNED-PAYLOAD or one of the"
            " STREAMING- words for AWS4-HMAC-SHA256.",
            fields={"ArgumentName": "x-amz-content-sha256", "ArgumentValue": stated},
        )
    return stated
