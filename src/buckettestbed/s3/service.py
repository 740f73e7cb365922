"""The S3 dialect: from a request to its handler, and from an error to S3's answer."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.errors import ModelError
from buckettestbed.operations.s3 import ROUTES
from buckettestbed.rest.call import PART_MINIMUM_BYTES, Call
from buckettestbed.rest.errors import ProviderError, RestError
from buckettestbed.rest.service import RestService
from buckettestbed.s3 import buckets, listing, reading, uploads, writing
from buckettestbed.s3.completed import CompletedUploads
from buckettestbed.s3.errors import S3Error, translated
from buckettestbed.s3.plain import S3PlainGets
from buckettestbed.serving.dialect import Operation
from buckettestbed.serving.messages import Request, Response

__all__ = ["S3Service"]

_HANDLERS: Mapping[str, Callable[[Call], Awaitable[Response]]] = {
    "abort_upload": uploads.abort_upload,
    "copy_object": writing.copy_object,
    "create_bucket": buckets.create_bucket,
    "create_upload": uploads.create_upload,
    "delete_bucket": buckets.delete_bucket,
    "delete_object": writing.delete_object,
    "delete_objects": writing.delete_objects,
    "get_bucket_location": buckets.get_bucket_location,
    "get_bucket_versioning": buckets.get_bucket_versioning,
    "get_object": reading.get_object,
    "get_object_attributes": reading.get_object_attributes,
    "get_object_range": reading.get_object,
    "head_bucket": buckets.head_bucket,
    "head_object": reading.get_object,
    "list_buckets": buckets.list_buckets,
    "list_objects_v1": listing.STYLE.version_1,
    "list_objects_v2": listing.STYLE.version_2,
    "list_parts": uploads.list_parts,
    "list_uploads": listing.list_uploads,
    "put_object": writing.put_object,
    "upload_part": uploads.upload_part,
    "upload_part_copy": uploads.upload_part_copy,
}


class S3Service(RestService):
    """Answers S3 requests."""

    name = "s3"
    throttled_status = 503
    routes = ROUTES
    plain_gets = S3PlainGets
    error_type = S3Error
    translates = (ModelError, RestError)

    def __init__(
        self, buckets: Buckets, *, base_hosts: Collection[str], minimum_part_bytes: int = PART_MINIMUM_BYTES
    ) -> None:
        super().__init__(buckets, base_hosts=base_hosts, minimum_part_bytes=minimum_part_bytes)
        self.handlers = {**_HANDLERS, "complete_upload": partial(uploads.complete_upload, completed=CompletedUploads())}

    def request_id_header(self, request_id: str) -> bytes:
        """Returns S3's header line of a request's id."""
        return b"x-amz-request-id: %s\r\n" % request_id.encode()

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""
        return _identified(await super().answer(request, operation), request)

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns S3's answer for an error that is not the model's."""
        return _identified(super().error(request, status=status, code=code, message=message), request)

    def refusal(self, request: Request, error: S3Error) -> Response:
        """Returns S3's answer for an error that was found before the operation began."""
        return _identified(self._error_response(error, request), request)

    def _translated(self, error: Exception, operation: Operation) -> S3Error:  # noqa: ARG002 - as the XML API's.
        assert isinstance(error, self.translates)
        return translated(error)

    def _error_fields(self, error: ProviderError, request: Request) -> Mapping[str, str]:
        return {
            "Code": error.code,
            "Message": error.detail or error.wording,
            **error.fields,
            "Resource": request.raw_path.decode("latin-1"),
            "RequestId": request.id,
            "HostId": "testbed",
        }


def _identified(response: Response, request: Request) -> Response:
    response.headers.append((b"x-amz-request-id", request.id.encode()))
    return response
