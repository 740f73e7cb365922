"""A dialect that demands credentials: a request is refused, or goes on as if none were demanded."""

from collections.abc import Collection
from typing import Protocol

from buckettestbed.serving.dialect import Dialect, Operation, PlainGet
from buckettestbed.serving.messages import Request, Response

__all__ = ["AuthenticatedDialect", "Authenticator"]


class Authenticator(Protocol):
    """Decides about requests of one provider."""

    def endpoint(self, request: Request) -> Operation | None:
        """Returns the operation of a request that it answers itself, such as one for a token, or None."""

    async def answer(self, request: Request, operation: Operation) -> Response | None:
        """Returns the authenticator's own answer or a refusal, or None for a request that may go on."""


class AuthenticatedDialect:
    """A dialect whose every answer an authenticator has allowed.

    No GET is plain here, so each goes the ordinary way, where its credentials are checked.
    """

    def __init__(self, dialect: Dialect, authenticator: Authenticator) -> None:
        self._dialect = dialect
        self._authenticator = authenticator

    @property
    def name(self) -> str:
        """The dialect's."""
        return self._dialect.name

    @property
    def throttled_status(self) -> int:
        """The dialect's."""
        return self._dialect.throttled_status

    def identify(self, request: Request) -> Operation:
        """Returns what the request asks for."""
        return self._authenticator.endpoint(request) or self._dialect.identify(request)

    async def answer(self, request: Request, operation: Operation) -> Response:
        """Returns the authenticator's answer where it has one, else the dialect's; raises only DisconnectedError."""
        refusal = await self._authenticator.answer(request, operation)
        return await self._dialect.answer(request, operation) if refusal is None else refusal

    def error(self, request: Request, *, status: int, code: str | None = None, message: str | None = None) -> Response:
        """Returns the dialect's answer for an error."""
        return self._dialect.error(request, status=status, code=code, message=message)

    def plain_get(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns None: see the class."""
        del target, headers
        return None

    def request_id_header(self, request_id: str) -> bytes:
        """Returns the dialect's header line of a request's id."""
        return self._dialect.request_id_header(request_id)
