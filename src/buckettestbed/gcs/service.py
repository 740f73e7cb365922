"""The GCS dialect: which of its two APIs a request is for."""

from collections.abc import Collection
from typing import Protocol

from buckettestbed.gcs.json.service import JsonService
from buckettestbed.gcs.xml.service import XmlService
from buckettestbed.model.buckets import Buckets
from buckettestbed.rest.call import PART_MINIMUM_BYTES
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import Request, Response

__all__ = ["GcsService", "is_json_api"]

_JSON_PATHS = (
    b"/storage/v1/",
    b"/upload/storage/v1/",
    b"/resumable/upload/storage/v1/",
    b"/download/storage/v1/",
    b"/batch/storage/v1",
)
"""*Source*: Cloud Storage JSON API, request endpoints. The XML API would take them for buckets' names."""


def is_json_api(path: bytes) -> bool:
    """Returns whether a request's path is one of the JSON API's."""
    return path.startswith(_JSON_PATHS)


class _Api(Protocol):
    def identify(self, request: Request) -> Operation: ...

    async def answer(self, request: Request, operation: Operation) -> Response: ...

    def error(self, request: Request, *, status: int, code: str | None, message: str | None) -> Response: ...

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None: ...


class GcsService:
    """Answers GCS requests, JSON API and XML API, out of a bucket model.

    Args:
        buckets: the model.
        base_hosts: host names before which a bucket's name may stand (virtual-host addressing, XML API only).
        minimum_part_bytes: least size of a part other than a multipart upload's last (XML API only).
    """

    name = "gcs"
    throttled_status = 429

    def __init__(
        self, buckets: Buckets, *, base_hosts: Collection[str], minimum_part_bytes: int = PART_MINIMUM_BYTES
    ) -> None:
        self._json: _Api = JsonService(buckets)
        self._xml: _Api = XmlService(buckets, base_hosts=base_hosts, minimum_part_bytes=minimum_part_bytes)

    def _api(self, path: bytes) -> _Api:
        return self._json if is_json_api(path) else self._xml

    def identify(self, request: Request) -> Operation:
        """Returns what the request asks for, `unknown` where it is not served or malformed."""
        return self._api(request.raw_path).identify(request)

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""
        return _identified(await self._api(request.raw_path).answer(request, operation), request)

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns the answer of the API that was asked for an error that is not the model's."""
        response = self._api(request.raw_path).error(request, status=status, code=code, message=message)
        return _identified(response, request)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a plain GET of an object, or None."""
        return self._api(target).plain_get(target, headers)

    def request_id_header(self, request_id: str) -> bytes:
        """Returns GCS's header line of a request's id."""
        return b"x-guploader-uploadid: %s\r\n" % request_id.encode()


def _identified(response: Response, request: Request) -> Response:
    response.headers.append((b"x-guploader-uploadid", request.id.encode()))
    return response
