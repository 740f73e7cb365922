"""The XML API: from a request to its handler, and from an error to the API's answer."""

from collections.abc import Awaitable, Callable, Mapping

from buckettestbed.gcs.xml import buckets, listing, reading, uploads, writing
from buckettestbed.gcs.xml.errors import TRANSLATED, XmlApiError, translated
from buckettestbed.gcs.xml.plain import XmlPlainGets
from buckettestbed.operations.gcs_xml import ROUTES
from buckettestbed.rest.call import Call
from buckettestbed.rest.errors import ProviderError
from buckettestbed.rest.service import RestService
from buckettestbed.serving.dialect import Operation
from buckettestbed.serving.messages import Request, Response

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
    "list_objects_v1": listing.STYLE.version_1,
    "list_objects_v2": listing.STYLE.version_2,
    "list_parts": uploads.list_parts,
    "list_uploads": listing.list_uploads,
    "put_object": writing.put_object,
    "upload_part": uploads.upload_part,
}


class XmlService(RestService):
    """Answers requests of the XML API."""

    routes = ROUTES
    handlers = _HANDLERS
    plain_gets = XmlPlainGets
    error_type = XmlApiError
    translates = TRANSLATED

    def _translated(self, error: Exception, operation: Operation) -> XmlApiError:
        return translated(error, f"{operation.bucket}/{operation.key}" if operation.key else operation.bucket)

    def _error_fields(self, error: ProviderError, request: Request) -> Mapping[str, str]:  # noqa: ARG002 - as S3's.
        return {"Code": error.code, "Message": error.wording, "Details": error.detail or error.wording}
