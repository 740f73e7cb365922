"""What S3 and the XML API of GCS do alike: from a request to its handler, from an error to the provider's answer."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import ClassVar

from buckettestbed.model.buckets import Buckets
from buckettestbed.operations.routes import UNKNOWN, Routes
from buckettestbed.rest.addressing import address
from buckettestbed.rest.call import PART_MINIMUM_BYTES, Call
from buckettestbed.rest.errors import ProviderError, RestError
from buckettestbed.rest.plain import PlainGets
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import DisconnectedError, Request, Response
from buckettestbed.serving.xml import XML_HEADER, document, element

__all__ = ["RestService"]

_logger = logging.getLogger(__name__)

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


class RestService(ABC):
    """Answers requests out of a bucket model.

    A subclass has the provider's `routes`, `handlers` by operation, `plain_gets`, `error_type`, and the exceptions that
    it `translates` into that.

    Args:
        buckets: the model.
        base_hosts: host names before which a bucket's name may stand (virtual-host addressing).
        minimum_part_bytes: least size of a part other than an upload's last.
    """

    routes: ClassVar[Routes]
    handlers: Mapping[str, Callable[[Call], Awaitable[Response]]]
    plain_gets: ClassVar[type[PlainGets]]
    error_type: ClassVar[type[ProviderError]]
    translates: ClassVar[tuple[type[Exception], ...]]

    def __init__(
        self, buckets: Buckets, *, base_hosts: Collection[str], minimum_part_bytes: int = PART_MINIMUM_BYTES
    ) -> None:
        self._buckets = buckets
        self._base_hosts = tuple(base_hosts)
        self._minimum_part_bytes = minimum_part_bytes
        self._plain_gets = self.plain_gets(buckets, base_hosts=base_hosts)

    def identify(self, request: Request) -> Operation:
        """Returns what the request asks for, `unknown` where it is not served or malformed."""
        try:
            bucket, key = self._address(request)
        except RestError:
            return Operation(name=UNKNOWN)
        name = self.routes.name(request.method, bucket, key, request.query, request.headers)
        return Operation(name=name, bucket=bucket, key=key, prefix="" if key else request.query.get("prefix", ""))

    def _address(self, request: Request) -> tuple[str, str]:
        return address(request.raw_path, request.headers.get("host", ""), self._base_hosts)

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the answer, errors included; raises only DisconnectedError."""
        try:
            handler = self.handlers.get(operation.name)
            if handler is None:
                self._address(request)  # Raises what is wrong with it, if that is the reason.
                raise _unserved(request, operation)
            header = self.routes.unserved_header(operation.name, request.headers)
            if header is not None:
                raise RestError(
                    "NotImplemented",
                    f"The testbed does not do what {header} asks of a request for {operation.name}.",
                    fields={"Header": header},
                )
            call = Call(
                buckets=self._buckets,
                request=request,
                bucket_name=operation.bucket,
                key=operation.key,
                minimum_part_bytes=self._minimum_part_bytes,
            )
            return await handler(call)
        except self.translates as error:
            return self._error_response(self._translated(error, operation), request)
        except DisconnectedError:
            raise
        except Exception as error:
            told = self._buckets.no_room(error)
            if told is not None:
                return self._error_response(self.error_type.of_status(507, "InsufficientStorage", told), request)
            _logger.exception("%s %s failed", request.method, operation.name)
            return self._error_response(self.error_type("InternalError"), request)

    @abstractmethod
    def _translated(self, error: Exception, operation: Operation) -> ProviderError:
        """Returns the provider's error for one of those that it translates."""

    @abstractmethod
    def _error_fields(self, error: ProviderError, request: Request) -> Mapping[str, str]:
        """Returns the elements of the document that describes an error."""

    def _error_response(self, error: ProviderError, request: Request) -> Response:
        """Returns the answer for an error: the provider's document, or headers alone where the request was HEAD."""
        headers = [XML_HEADER, *error.headers]
        if request.method == "HEAD" or error.status == 304:
            return Response(status=error.status, headers=headers, content_length=0)
        fields = [element(name, value) for name, value in self._error_fields(error, request).items()]
        return Response(status=error.status, headers=headers, body=document("Error", fields, namespace=None))

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns the provider's answer for an error that is not the model's."""
        return self._error_response(self.error_type.of_status(status, code, message), request)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer to a plain GET, or None."""
        return self._plain_gets.find(target, headers)


def _unserved(request: Request, operation: Operation) -> RestError:
    """Returns the error for a request that no operation served fits."""
    if request.method not in _METHODS:
        return RestError("MethodNotAllowed")
    target = "an object" if operation.key else "a bucket" if operation.bucket else "the service"
    having = f" with {', '.join(request.query)}" if request.query else ""
    return RestError("NotImplemented", f"The testbed serves no {request.method} of {target}{having}.")
