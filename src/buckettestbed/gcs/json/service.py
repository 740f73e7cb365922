"""The JSON API: from a request to its handler, and from an error to the API's answer."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from buckettestbed.gcs.json import buckets, changing, listing, reading, uploads
from buckettestbed.gcs.json.batch import answer_batch
from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError, error_response, translated
from buckettestbed.gcs.json.plain import PlainDownloads
from buckettestbed.gcs.json.sessions import Sessions
from buckettestbed.model.buckets import Buckets
from buckettestbed.operations.gcs_json import (
    is_download,
    operation_name,
    parse_path,
    unserved_header,
    unserved_parameter,
)
from buckettestbed.operations.routes import UNKNOWN
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import DisconnectedError, Request, Response

__all__ = ["JsonService"]

_Handler = Callable[[Call], Awaitable[Response]]

_HANDLERS: Mapping[str, _Handler] = {
    "compose_object": changing.compose_object,
    "copy_object": changing.copy_object,
    "create_bucket": buckets.create_bucket,
    "delete_bucket": buckets.delete_bucket,
    "delete_object": changing.delete_object,
    "get_bucket_policy": buckets.get_bucket_policy,
    "get_object": reading.get_object,
    "get_object_range": reading.get_object,
    "get_storage_layout": buckets.get_storage_layout,
    "head_bucket": buckets.get_bucket,
    "head_object": reading.get_metadata,
    "list_buckets": buckets.list_buckets,
    "list_objects": listing.list_objects,
    "move_object": changing.move_object,
    "put_object": uploads.put_object,
    "test_permissions": buckets.test_permissions,
    "update_bucket": buckets.update_bucket,
    "update_object": changing.update_object,
}

_logger = logging.getLogger(__name__)


class JsonService:
    """Answers requests of the JSON API out of a bucket model.

    Args:
        buckets: the model.
    """

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._plain = PlainDownloads(buckets)
        self._sessions = Sessions()
        self._handlers: dict[str, _Handler] = {
            **_HANDLERS,
            "batch": self._batch,
            "cancel_session": self._sessions.cancel,
            "query_session": self._sessions.take,
            "start_session": self._sessions.start,
            "upload_chunk": self._sessions.take,
        }

    def identify(self, request: Request) -> Operation:
        """Returns what the request asks for, `unknown` where it is not served or malformed.

        An upload's key is empty where only its body names it.
        """
        address = parse_path(request.raw_path)
        if address is None:
            return Operation(name=UNKNOWN)
        query = request.query
        name = operation_name(request.method, address, query, request.headers)
        key = address.to_key or address.key
        if address.root == "upload":
            key = query.get("name", "")
            if not key and "upload_id" in query:
                key = self._sessions.key(self._buckets.find(address.bucket), query["upload_id"])
        prefix = query.get("prefix", "") if name == "list_objects" else ""
        return Operation(name=name, bucket=address.to_bucket or address.bucket, key=key, prefix=prefix)

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""
        try:
            response = await self._handled(request, operation)
        except DisconnectedError:
            raise
        except Exception as error:
            told = self._buckets.no_room(error)
            refused = translated(error) if told is None else JsonError(507, told, reason="insufficientStorage")
            if refused is None:
                _logger.exception("%s %s failed", request.method, operation.name)
                refused = JsonError(500)
            response = error_response(refused, as_text=_is_download(request))
        if request.method == "HEAD" and not response.bodiless:
            response.content_length = response.length_bytes
        return response

    async def _handled(self, request: Request, operation: Operation) -> Response:
        address = parse_path(request.raw_path)
        handler = self._handlers.get(operation.name)
        if address is None or handler is None:
            known = request.method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
            raise JsonError(501 if known else 405, f"The testbed does not serve {request.method} on this path.")
        for kind, name in (
            ("parameter", unserved_parameter(operation.name, request.query)),
            ("header", unserved_header(operation.name, request.headers)),
        ):
            if name is not None:
                raise JsonError(
                    501,
                    f"The testbed does not do what the {kind} {name} asks of a request for {operation.name}.",
                    parameter=name,
                )
        return await handler(Call(buckets=self._buckets, request=request, address=address))

    async def _batch(self, call: Call) -> Response:
        """Answers a batch, whose requests are counted as one."""

        async def answer(inner: Request) -> Response:
            if not inner.may_write and inner.method not in ("GET", "HEAD"):
                raise JsonError(403)
            return await self.answer(inner, self.identify(inner))

        return await answer_batch(call, answer)

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns the API's answer for an error that is not the model's."""
        return error_response(JsonError(status, message, reason=code), as_text=_is_download(request))

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a plain download, or None."""
        return self._plain.find(target, headers)


def _is_download(request: Request) -> bool:
    address = parse_path(request.raw_path)
    return address is not None and request.method in ("GET", "HEAD") and is_download(address, request.query)
