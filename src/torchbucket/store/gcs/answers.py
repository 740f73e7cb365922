"""What Cloud Storage's answers say of objects and of what was written, and what its errors mean."""

from __future__ import annotations

import json
from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.errors import PermissionDeniedError, StoreError
from torchbucket.store.gcs.access import GcsAccess
from torchbucket.store.http.answers import Answers
from torchbucket.store.http.checksums import ALGORITHMS, Checksum
from torchbucket.store.http.dates import http_seconds
from torchbucket.store.http.refusal import Refusal, shown
from torchbucket.store.http.xml import error_fields
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Answer

__all__ = ["CRC32C", "GcsAnswers"]

CRC32C: Final = ALGORITHMS["crc32c"]
"""The one checksum that every object has. *Source*: Cloud Storage documentation, "Data validation"."""

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
_PAYER: Final = "the bucket's requesters pay, and need a project of their own; set StoreConfig.user_project"
_DENIED: Final = {
    "AccessDenied": "the credentials do not allow it, or the object is missing and they do not allow listing, or a "
    "policy, hold or retention keeps it as it is, as the provider says in brackets; check the bucket's roles",
    "UserProjectMissing": _PAYER,
    "UserProjectInvalid": _PAYER,
    "UserProjectInconsistent": _PAYER,
    "UserProjectAccessDenied": _PAYER,
}

# What the JSON API says in its text alone, and the code that says the same.
_WORDED: Final = {
    "bucket does not exist": "NoSuchBucket",
    "no such object": "NoSuchKey",
    "requester pays": "UserProjectMissing",
    "doesn't match calculated": "BadDigest",
}


class GcsAnswers(Answers):
    """Reads Cloud Storage's answers; versions are generations."""

    service = "a Cloud Storage service"
    ranges_tell_checksum = True

    def __init__(self, uri: str, config: StoreConfig, access: GcsAccess) -> None:
        super().__init__(uri, CRC32C, verifies=config.verify_checksums)
        self._access = access

    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        code, text = _said(answer)
        status = answer.status
        if status in (400, 404):
            code = next((word for said, word in _WORDED.items() if said in text.lower()), code)
        refusal = Refusal(operation, self.address(key), self.uri, answer, code, text)
        if 300 <= status < 400 and status != 304:
            place = answer.headers.get("location", "another address")
            return refusal.error(
                StoreError, f"the server sends the request on to {shown(place)!r}; set StoreConfig.endpoint"
            )
        if status == 401:
            advice = "the access token is missing, wrong or has ended; check the credentials"
            refuse = refusal.again if self._access.refused() else refusal.error
            return refuse(PermissionDeniedError, advice)
        return refusal.meaning(throttled=_THROTTLED, transient=_TRANSIENT, denied=_DENIED)

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from an answer's headers.

        Raises:
            Again: the bytes are not those that are stored, but were compressed or decompressed on the way.
        """
        headers = answer.headers
        stored = headers.get("x-goog-stored-content-length")
        if stored is not None and stored != str(size_bytes):
            why = (
                f"the object has {stored} bytes and the answer {size_bytes}: it was compressed or decompressed on the "
                "way; is there a proxy that does so?"
            )
            raise self.again("get_object", key, why, answer)
        return ObjectInfo(
            key=key,
            size_bytes=size_bytes,
            version=headers.get("x-goog-generation"),
            last_modified_s=http_seconds(headers.get("last-modified")),
        )

    def checksum(self, answer: Answer) -> Checksum | None:
        """The CRC-32C of the whole object, which the answer to a range has, too."""
        return self.stored_sum(answer) if self.verifies else None

    def stored_sum(self, answer: Answer) -> Checksum | None:
        """The CRC-32C in an answer's ``x-goog-hash`` headers."""
        for entry in answer.headers.get("x-goog-hash", "").split(","):
            name, _, value = entry.strip().partition("=")
            if name == "crc32c":
                return CRC32C.read(value)
        return None


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
