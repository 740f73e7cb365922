"""One operation on its way: the request with its bucket and key, and the model it acts on."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.objects import Bucket, StoredObject
from buckettestbed.rest.errors import RestError
from buckettestbed.serving.messages import BodyTooLargeError, Request, Response
from buckettestbed.serving.xml import XML_HEADER

__all__ = ["PART_MINIMUM_BYTES", "Call", "quoted", "xml_response"]

PART_MINIMUM_BYTES = 5 << 20
"""Least size of a part other than the last. *Source*: Amazon S3 user guide, multipart upload limits; Cloud Storage,
XML API multipart uploads: 5 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a handler receives: the model, the request, the names it is about, and the least size of a part other than
    an upload's last."""

    buckets: Buckets
    request: Request
    bucket_name: str
    key: str
    minimum_part_bytes: int = PART_MINIMUM_BYTES

    @property
    def query(self) -> Mapping[str, str]:
        """The request's parameters."""
        return self.request.query

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's headers."""
        return self.request.headers

    def bucket(self) -> Bucket:
        """Returns the bucket; raises BucketMissingError."""
        return self.buckets.bucket(self.bucket_name)

    def found(self) -> StoredObject:
        """Returns the object; raises BucketMissingError or NoSuchKey."""
        found = self.bucket().objects.get(self.key)
        if found is None:
            raise RestError("NoSuchKey", fields={"Key": self.key})
        return found

    def integer(
        self, name: str, default: int, *, least: int = 0, most: int, of: Mapping[str, str] | None = None
    ) -> int:
        """Returns a numeric parameter, at most `most`; raises InvalidArgument for text, or a number below `least`.

        Args:
            name: of the parameter.
            default: where it is absent or empty.
            least: the least that is allowed.
            most: what a greater number is taken for.
            of: where it stands, None for the query.
        """
        value = (self.query if of is None else of).get(name)
        if not value:
            return default
        if not value.isascii() or not value.isdecimal() or not least <= (number := int(value[:12])):
            raise RestError(
                "InvalidArgument",
                f"{name} must be an integer from {least} to {most}.",
                fields={"ArgumentName": name, "ArgumentValue": value},
            )
        return min(number, most)

    async def xml_body(self, limit_bytes: int) -> bytes:
        """Returns a body of XML; raises MaxMessageLengthExceeded above the limit, XAmzContentSHA256Mismatch where it is
        not the body that was signed."""
        try:
            body = await self.request.body.read(limit_bytes)
        except BodyTooLargeError:
            raise RestError("MaxMessageLengthExceeded", f"The body is larger than {limit_bytes} bytes.") from None
        signed = self.headers.get("x-amz-content-sha256", "")
        if len(signed) == 64 and signed != hashlib.sha256(body).hexdigest():
            raise RestError("XAmzContentSHA256Mismatch")
        return body


def xml_response(body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> Response:
    """Returns a 200 with a document."""
    return Response(status=200, headers=[XML_HEADER, *(headers or [])], body=body)


def quoted(etag: str) -> str:
    """Returns an ETag as headers and documents show it."""
    return f'"{etag}"'
