"""The XML API: from a request to its handler, and from an error to the API's answer."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from buckettestbed.gcs.xml import buckets, listing, reading, uploads, writing
from buckettestbed.gcs.xml.errors import TRANSLATED, XmlApiError, error_response, translated
from buckettestbed.gcs.xml.plain import PlainGets
from buckettestbed.model.objects import Buckets
from buckettestbed.operations.gcs_xml import ROUTES
from buckettestbed.operations.routes import UNKNOWN
from buckettestbed.rest.addressing import address
from buckettestbed.rest.call import PART_MINIMUM_BYTES, Call
from buckettestbed.rest.errors import RestError
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import DisconnectedError, Request, Response

__all__ = ["XmlService"]

_HANDLERS: Mapping[str, Callable[[Call], Awaitable[Response]]] = {
    "abort_upload": uploads.abort_upload,
    "complete_upload": uploads.complete_upload,
    "copy_object": writing.copy_object,
    "create_bucket": buckets.create_bucket,
    "create_upload": uploads.create_upload,
    "delete_bucket": buckets.delete_bucket,
    "delete_object": writing.delete_object,
    "get_bucket_location": buckets.get_bucket_location,
    "get_bucket_storage_class": buckets.get_bucket_storage_class,
    "get_bucket_versioning": buckets.get_bucket_versioning,
    "get_object": reading.get_object,
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
}

_logger = logging.getLogger(__name__)

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


class XmlService:
    """Answers requests of the XML API out of a bucket model.

    Args:
        buckets: the model.
        base_hosts: host names before which a bucket's name may stand (virtual-host addressing).
        minimum_part_bytes: least size of a part other than an upload's last.
    """

    def __init__(
        self, buckets: Buckets, *, base_hosts: Collection[str], minimum_part_bytes: int = PART_MINIMUM_BYTES
    ) -> None:
        self._buckets = buckets
        self._base_hosts = tuple(base_hosts)
        self._minimum_part_bytes = minimum_part_bytes
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

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""
        name = operation.name
        resource = f"{operation.bucket}/{operation.key}" if operation.key else operation.bucket
        try:
            handler = _HANDLERS.get(name)
            if handler is None:
                self._address(request)  # Raises what is wrong with it, if that is the reason.
                raise XmlApiError("NotImplemented" if request.method in _METHODS else "MethodNotAllowed")
            call = Call(
                buckets=self._buckets,
                request=request,
                bucket_name=operation.bucket,
                key=operation.key,
                minimum_part_bytes=self._minimum_part_bytes,
            )
            return await handler(call)
        except TRANSLATED as error:
            return error_response(translated(error, resource), request)
        except DisconnectedError:
            raise
        except Exception:
            _logger.exception("%s %s failed", request.method, name)
            return error_response(XmlApiError("InternalError"), request)

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns the API's answer for an error that is not the model's."""
        return error_response(XmlApiError.of_status(status, code, message), request)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a plain GET, or None."""
        return self._plain_gets.find(target, headers)
