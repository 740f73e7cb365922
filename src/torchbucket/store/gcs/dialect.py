"""The operations of Cloud Storage for one bucket."""

from __future__ import annotations

from collections.abc import Sequence

from torchbucket.config import StoreConfig
from torchbucket.store.conditions import Condition
from torchbucket.store.gcs.access import GcsAccess
from torchbucket.store.gcs.answers import GcsAnswers
from torchbucket.store.gcs.requests import GcsRequests
from torchbucket.store.gcs.resources import described, listed_page, read_json
from torchbucket.store.gcs.writes import CompleteUpload, ComposeObjects, CopyObject
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.uploads import UploadedPart
from torchbucket.store.protocol import ListedPage, ObjectInfo
from torchbucket.store.transport.operation import Operation

__all__ = ["GcsDialect"]


class GcsDialect(Dialect):
    """Speaks Cloud Storage to one bucket; versions are generations.

    What is written carries its CRC-32C, which the server checks before it makes the object and repeats in its answer.
    *Source* of the limits: Cloud Storage documentation, "Quotas and limits" and "XML API multipart uploads", which also
    says that the requests of an upload in parts take no preconditions.
    """

    largest_copy_bytes = 5 << 40
    conditional_uploads = False
    copies_parts = False  # Source: Cloud Storage XML API, "Upload an object part", which has no copy of a range.
    most_sources = 32
    requests: GcsRequests
    answers: GcsAnswers

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        access = GcsAccess(bucket, config)
        super().__init__(access, GcsRequests(bucket, config, access), GcsAnswers(f"gs://{bucket}", config, access))

    def head_object(self, key: str) -> Operation[ObjectInfo]:
        """Describe an object, by the API that tells a missing object from a missing bucket."""
        return self.asked(
            "head_object",
            key,
            lambda: self.requests.metadata_request(key),
            lambda answer: described(read_json(answer.body), key),
        )

    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        return CopyObject(self.requests, self.answers, source, target_key)

    def read_page(self, body: bytes, *, start_after: str) -> tuple[ListedPage, str | None]:
        return listed_page(body, start_after=start_after)

    def complete_upload(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        assert condition is None  # which would be ignored; see conditional_uploads
        return CompleteUpload(self.requests, self.answers, key, upload_id, parts, None)

    def compose_objects(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        return ComposeObjects(self.requests, self.answers, sources, target_key, condition=condition)
