"""What S3's answers say of objects and of what was written."""

from __future__ import annotations

from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.errors import NotFoundError
from torchbucket.store.http.answers import Answers
from torchbucket.store.http.checksums import ALGORITHMS, Checksum
from torchbucket.store.http.dates import http_seconds
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.access import Access
from torchbucket.store.s3.errors import s3_failure
from torchbucket.store.transport.operation import Answer

__all__ = ["S3Answers"]

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
        """What an answer other than success means."""
        return s3_failure(operation, self.address(key), self.uri, answer, self._access)

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from an answer's headers."""
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

    def missing_bucket(self, operation: str) -> NotFoundError:
        """The error for a bucket that is not there."""
        return NotFoundError(
            f"{operation} {self.uri}: there is no bucket {self.uri}; check its name, region and endpoint (HTTP 404)",
            operation=operation,
            uri=self.uri,
            status=404,
        )


def _is_of_object(answer: Answer) -> bool:
    """Whether checksums in the answer are of bytes, rather than of parts' checksums."""
    return answer.headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT"
