"""The errors of torchbucket: one root, few classes, each saying what was tried, what arrived and what to do next."""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "NotFoundError",
    "ObjectChangedError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "StoreError",
    "ThrottledError",
    "TorchbucketError",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
]


class TorchbucketError(Exception):
    """Root of every error that torchbucket raises on purpose."""


class ConfigError(TorchbucketError, ValueError):
    """A setting or a URI has a wrong value; the message names the field and what it accepts."""


class StoreError(TorchbucketError, OSError):
    """An operation on a store failed.

    Args:
        message: what was tried, what arrived and what to do next; never a secret.
        operation: the store's method or request, such as ``get_object``.
        uri: the object's or the bucket's address.
        status: HTTP status, where an answer arrived.
        code: the provider's own error code, such as ``SlowDown``.
        attempts: how many requests were made before giving up.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        uri: str = "",
        status: int | None = None,
        code: str | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation
        self.uri = uri
        self.status = status
        self.code = code
        self.attempts = attempts

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (DataLoader workers); the default cannot do that with keyword-only fields.
        fields = {name: getattr(self, name) for name in ("operation", "uri", "status", "code", "attempts")}
        return _rebuilt, (type(self), self.message, fields)


def _rebuilt(kind: type[StoreError], message: str, fields: dict[str, object]) -> StoreError:
    return kind(message, **fields)  # type: ignore[arg-type]  # the fields of __reduce__, by name


class NotFoundError(StoreError, FileNotFoundError):
    """The object or the bucket does not exist."""


class PermissionDeniedError(StoreError, PermissionError):
    """The credentials are missing, wrong, expired or do not allow the operation."""


class ThrottledError(StoreError):
    """The provider asked to slow down, and still did after all attempts."""


class PreconditionFailedError(StoreError):
    """A conditional write found the key already present, or changed."""


class ObjectChangedError(StoreError):
    """The object was overwritten or removed while it was read; nothing mixed is ever returned."""


class TruncatedError(StoreError):
    """Fewer bytes arrived than were announced, after all attempts."""


class TransportError(StoreError):
    """No usable answer arrived after all attempts: no connection, a reset, a stall, a TLS failure, a server error."""


class UnsupportedError(StoreError, NotImplementedError):
    """The store cannot do this at all."""
