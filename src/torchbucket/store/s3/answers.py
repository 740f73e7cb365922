"""What S3's answers say of objects and of what was written, and what its errors mean and what to do about them."""

from __future__ import annotations

from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.errors import PermissionDeniedError, StoreError
from torchbucket.store.http.answers import Answers
from torchbucket.store.http.checksums import ALGORITHMS, Checksum
from torchbucket.store.http.dates import http_seconds
from torchbucket.store.http.refusal import Refusal, shown
from torchbucket.store.http.xml import error_fields
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.access import Access
from torchbucket.store.transport.operation import Again, Answer

__all__ = ["S3Answers"]

# Source of the codes: S3 API Reference, "Error responses".
_THROTTLED: Final = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "TooManyRequests",
    "ServiceUnavailable",
}
_TRANSIENT: Final = {
    "InternalError",
    "RequestTimeout",
    "OperationAborted",
    "BadDigest",
    "IncompleteBody",
    "ConditionalRequestConflict",
}
_DENIED: Final = {
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

_CHECKSUM_HEADERS: Final = tuple((f"x-amz-checksum-{name}", algorithm) for name, algorithm in ALGORITHMS.items())


class S3Answers(Answers):
    """Reads S3's answers; versions are ETags."""

    service = "an S3 service"
    ranges_tell_checksum = False

    def __init__(self, uri: str, config: StoreConfig, access: Access) -> None:
        super().__init__(uri, ALGORITHMS[config.upload_checksum], verifies=config.verify_checksums)
        self._access = access
        self._sum_header = f"x-amz-checksum-{self.upload_sum.name}"
        self.bucket_seen = False
        """Whether an answer has shown that the bucket is there."""

    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        fields, status = error_fields(answer.body), answer.status
        # The answer to a HEAD has no body.
        code = fields.get("Code") or ("ServiceUnavailable" if status == 503 else None)
        refusal = Refusal(operation, self.address(key), self.uri, answer, code, fields.get("Message"))
        region = self._access.place().region
        right_region = fields.get("Region") or answer.headers.get("x-amz-bucket-region")
        if code in _REGION or status in (301, 302, 307, 308) or (status == 400 and right_region not in (None, region)):
            if right_region is not None and self._access.follow(right_region):
                return Again(
                    refusal.error(StoreError, f"the bucket's region is {right_region!r}, where it is asked for now")
                )
            advice = "the bucket is reached by another region or endpoint"
            if right_region is not None and right_region != region:
                named = repr(shown(right_region))
                advice = f"the bucket's region is {named}, not {region!r}; set StoreConfig(region={named})"
            elif fields.get("Endpoint"):
                advice += f"; the server names {shown(fields['Endpoint'])}"
            return refusal.error(StoreError, advice)
        if status in (400, 401, 403) and self._access.refused(code):
            return Again(
                refusal.error(PermissionDeniedError, "the session's credentials have expired and are being renewed")
            )
        return refusal.meaning(throttled=_THROTTLED, transient=_TRANSIENT, denied=_DENIED)

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        self.bucket_seen = True
        headers = answer.headers
        return ObjectInfo(
            key=key,
            size_bytes=size_bytes,
            version=headers.get("etag"),
            last_modified_s=http_seconds(headers.get("last-modified")),
        )

    def checksum(self, answer: Answer) -> Checksum | None:
        """The checksum of the whole object that an answer tells, the cheapest where there are several.

        What comes with a range is of a part of an upload where it fits one, and looks like an object's, so it is left
        alone; so is the checksum of the checksums of parts. *Source*: S3 user guide, "Checking object integrity",
        "Part-level checksums", and https://github.com/boto/botocore/issues/3346.
        """
        if not self.verifies or answer.status != 200 or not _is_of_object(answer):
            return None
        for name, algorithm in _CHECKSUM_HEADERS:
            text = answer.headers.get(name)
            if text is not None:
                return algorithm.read(text)
        return None

    def stored_sum(self, answer: Answer) -> Checksum | None:
        """The checksum that the server repeats of what it stored."""
        return self.upload_sum.read(answer.headers.get(self._sum_header, "")) if _is_of_object(answer) else None


def _is_of_object(answer: Answer) -> bool:
    """Whether checksums in the answer are of bytes, rather than of parts' checksums."""
    return answer.headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT"
