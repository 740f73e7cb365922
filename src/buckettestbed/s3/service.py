"""The S3 dialect: from a request to its handler, and from an error to S3's answer."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from buckettestbed.model.objects import Buckets, ModelError
from buckettestbed.operations.routes import UNKNOWN
from buckettestbed.operations.s3 import ROUTES
from buckettestbed.rest.addressing import address
from buckettestbed.rest.call import PART_MINIMUM_BYTES
from buckettestbed.rest.errors import RestError
from buckettestbed.s3 import buckets, listing, reading, uploads, writing
from buckettestbed.s3.call import S3Call
from buckettestbed.s3.completed import CompletedUploads
from buckettestbed.s3.errors import S3Error, from_model, from_rest
from buckettestbed.s3.plain import PlainGets
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import DisconnectedError, Request, Response
from buckettestbed.serving.xml import XML_HEADER, document, element

__all__ = ["S3Service"]

_HANDLERS: Mapping[str, Callable[[S3Call], Awaitable[Response]]] = {
    "abort_upload": uploads.abort_upload,
    "complete_upload": uploads.complete_upload,
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
    "list_objects_v1": listing.list_objects_v1,
    "list_objects_v2": listing.list_objects_v2,
    "list_parts": uploads.list_parts,
    "list_uploads": listing.list_uploads,
    "put_object": writing.put_object,
    "upload_part": uploads.upload_part,
    "upload_part_copy": uploads.upload_part_copy,
}

_logger = logging.getLogger(__name__)

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


class S3Service:
    """Answers S3 requests out of a bucket model.

    Args:
        buckets: the model.
        base_hosts: host names before which a bucket's name may stand (virtual-host addressing).
        minimum_part_bytes: least size of a part other than an upload's last.
    """

    name = "s3"
    throttled_status = 503

    def __init__(
        self, buckets: Buckets, *, base_hosts: Collection[str], minimum_part_bytes: int = PART_MINIMUM_BYTES
    ) -> None:
        self._buckets = buckets
        self._minimum_part_bytes = minimum_part_bytes
        self._completed = CompletedUploads()
        self._base_hosts = tuple(base_hosts)
        self._plain_gets = PlainGets(buckets, base_hosts=base_hosts)

    def identify(self, request: Request) -> Operation:
        """Returns what the request asks for, `unknown` where it is not served or malformed."""
        try:
            bucket, key = self._address(request)
        except RestError:
            return Operation(name=UNKNOWN)
        name = ROUTES.name(request.method, bucket, key, request.query, request.headers)
        return Operation(name=name, bucket=bucket, key=key, prefix="" if key else request.query.get("prefix", ""))

    def _address(self, request: Request) -> tuple[str, str]:
        return address(request.raw_path, request.headers.get("host", ""), self._base_hosts)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a plain GET, or None."""
        return self._plain_gets.find(target, headers)

    def request_id_header(self, request_id: str) -> bytes:
        """Returns S3's header line of a request's id."""
        return b"x-amz-request-id: %s\r\n" % request_id.encode()

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns S3's answer for an error that is not the model's."""
        return self._identified(error_response(S3Error.of_status(status, code, message), request), request)

    def refusal(self, request: Request, error: S3Error) -> Response:
        """Returns S3's answer for an error that was found before the operation began."""
        return self._identified(error_response(error, request), request)

    def _identified(self, response: Response, request: Request) -> Response:
        response.headers.append((b"x-amz-request-id", request.id.encode()))
        return response

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""
        name = operation.name
        try:
            handler = _HANDLERS.get(name)
            if handler is None:
                self._address(request)  # Raises what is wrong with it, if that is the reason.
                raise S3Error("NotImplemented" if request.method in _METHODS else "MethodNotAllowed")
            call = S3Call(
                buckets=self._buckets,
                request=request,
                bucket_name=operation.bucket,
                key=operation.key,
                minimum_part_bytes=self._minimum_part_bytes,
                completed=self._completed,
            )
            response = await handler(call)
        except ModelError as error:
            response = error_response(from_model(error), request)
        except RestError as error:
            response = error_response(from_rest(error), request)
        except DisconnectedError:
            raise
        except Exception:
            _logger.exception("%s %s failed", request.method, name)
            response = error_response(S3Error("InternalError"), request)
        return self._identified(response, request)


def error_response(error: S3Error, request: Request) -> Response:
    """Returns the answer for an error: S3's document, or headers alone where the request was HEAD."""
    if request.method == "HEAD" or error.status == 304:
        return Response(status=error.status, headers=[XML_HEADER, *error.headers], content_length=0)
    resource = request.raw_path.decode("latin-1")
    fields = {
        "Code": error.code,
        "Message": error.message,
        **error.fields,
        "Resource": resource,
        "RequestId": request.id,
        "HostId": "testbed",
    }
    body = document("Error", [element(name, value) for name, value in fields.items()], namespace=None)
    return Response(status=error.status, headers=[XML_HEADER, *error.headers], body=body)
