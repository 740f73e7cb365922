"""What Cloud Storage's answers say of objects and of what was written."""

from __future__ import annotations

from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.errors import TransportError
from torchbucket.store.gcs.access import GcsAccess
from torchbucket.store.gcs.errors import gcs_failure
from torchbucket.store.http.answers import Answers
from torchbucket.store.http.checksums import ALGORITHMS, Checksum
from torchbucket.store.http.dates import http_seconds
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer

__all__ = ["CRC32C", "GcsAnswers"]

CRC32C: Final = ALGORITHMS["crc32c"]
"""The one checksum that every object has. *Source*: Cloud Storage documentation, "Data validation"."""


class GcsAnswers(Answers):
    """Reads Cloud Storage's answers; versions are generations."""

    service = "a Cloud Storage service"
    ranges_tell_checksum = True

    def __init__(self, uri: str, config: StoreConfig, access: GcsAccess) -> None:
        super().__init__(uri, CRC32C, verifies=config.verify_checksums)
        self._access = access

    def failure(self, operation: str, key: str, answer: Answer) -> Exception:
        """What an answer other than success means."""
        renewable = answer.status == 401 and self._access.refused()
        return gcs_failure(operation, self.address(key), self.uri, answer, renewable=renewable)

    def info(self, key: str, answer: Answer, size_bytes: int) -> ObjectInfo:
        """Read an object's description from an answer's headers.

        Raises:
            Again: the bytes are not those that are stored, but were compressed or decompressed on the way.
        """
        headers = answer.headers
        stored = headers.get("x-goog-stored-content-length")
        if stored is not None and stored != str(size_bytes):
            raise Again(
                TransportError(
                    f"read {self.address(key)}: the object has {stored} bytes and the answer {size_bytes}: it was "
                    "compressed or decompressed on the way; is there a proxy that does so?",
                    operation="get_object",
                    uri=self.address(key),
                    status=answer.status,
                )
            )
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
