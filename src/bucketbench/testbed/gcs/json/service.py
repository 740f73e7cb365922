"""The JSON API: from a request to its handler, and from an error to the API's answer."""

from collections.abc import Collection

from bucketbench.testbed.model.objects import Buckets
from bucketbench.testbed.serving.dialect import UNKNOWN, Operation, PlainGet
from bucketbench.testbed.serving.messages import Request, Response

__all__ = ["JsonService"]


class JsonService:
    """Answers requests of the JSON API."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def identify(self, request: Request) -> Operation:
        return Operation(name=UNKNOWN)

    async def answer(self, request: Request, operation: Operation) -> Response:
        return self.error(request, status=501)

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        return Response(status=status)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        return None
