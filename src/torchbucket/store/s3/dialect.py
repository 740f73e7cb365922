"""The operations of S3 for one bucket."""

from __future__ import annotations

from torchbucket.config import StoreConfig
from torchbucket.store.base import changed
from torchbucket.store.conditions import Condition
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.uploads import UploadedPart
from torchbucket.store.http.xml import document, fields_of, required, text_of
from torchbucket.store.protocol import ListedPage, ObjectInfo
from torchbucket.store.s3.access import Access
from torchbucket.store.s3.answers import S3Answers
from torchbucket.store.s3.listing import listed_page
from torchbucket.store.s3.requests import S3Requests
from torchbucket.store.s3.writes import CompleteUpload, HeadObject
from torchbucket.store.transport.operation import Answer, Call, Operation

__all__ = ["S3Dialect"]


class S3Dialect(Dialect):
    """Speaks S3 to one bucket; versions are ETags.

    *Source* of the limits: S3 user guide, "Multipart upload limits" and CopyObject's page.
    """

    largest_copy_bytes = 5 << 30
    conditional_uploads = True
    copies_parts = True
    most_sources = 0
    requests: S3Requests
    answers: S3Answers

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        access = Access(bucket, config)
        super().__init__(access, S3Requests(bucket, config, access), S3Answers(f"s3://{bucket}", config, access))

    def head_object(self, key: str) -> Operation[ObjectInfo]:
        return HeadObject(self.requests, self.answers, key)

    def copy_object(self, source: ObjectInfo, target_key: str) -> Operation[ObjectInfo]:
        """Copy an object of up to 5 GiB."""

        def copied(answer: Answer) -> ObjectInfo:
            tag = text_of(answer.body, "CopyObjectResult", "ETag")
            return ObjectInfo(key=target_key, size_bytes=source.size_bytes, version=tag)

        return self.asked("copy_object", target_key, lambda: self.requests.copy_request(source, target_key), copied)

    def read_page(self, body: bytes, *, start_after: str) -> tuple[ListedPage, str | None]:
        page = listed_page(body, start_after=start_after)
        self.answers.bucket_seen = True
        return page

    def copy_part(
        self, source: ObjectInfo, target_key: str, upload_id: str, number: int, start: int, stop: int
    ) -> Operation[UploadedPart]:
        def copied(answer: Answer) -> UploadedPart:
            result = fields_of(document(answer.body, "CopyPartResult"))
            checksum = result.get(self.requests.sum_element)
            return UploadedPart(number=number, size_bytes=stop - start, tag=required(result, "ETag"), checksum=checksum)

        def judge(answer: Answer) -> UploadedPart:
            if answer.status == 412:
                raise changed("copy_part", self.address(source.key), source.version, answer.status)
            # It is the source that may be missing or forbidden; of the upload the code says so.
            return self.answers.read("copy_part", source.key, answer, copied)

        return Call(
            "copy_part",
            target_key,
            self.address(target_key),
            lambda: self.requests.copy_part_request(source, target_key, upload_id, number, start, stop),
            judge,
        )

    def complete_upload(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Operation[ObjectInfo]:
        return CompleteUpload(self.requests, self.answers, key, upload_id, parts, condition)
