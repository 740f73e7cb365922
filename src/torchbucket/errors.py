"""The errors of torchbucket: one root, few classes, each saying what was tried, what arrived and what to do next."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ArchiveError",
    "ChecksumError",
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


class ArchiveError(TorchbucketError, ValueError):
    """A shard is no tar archive, or a damaged, cut or unsupported one; no sample of it is left out silently.

    Args:
        message: the shard's address, what is wrong where, and what to do.
        uri: the shard's address.
        offset: where in the shard, in bytes from its beginning.
    """

    def __init__(self, message: str, *, uri: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.uri = uri
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt_archive_error, (str(self), self.uri, self.offset)


def _rebuilt_archive_error(message: str, uri: str, offset: int) -> ArchiveError:
    return ArchiveError(message, uri=uri, offset=offset)


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

    def __reduce__(self) -> tuple[Any, tuple[type[StoreError], str, dict[str, object]]]:
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


class ChecksumError(StoreError):
    """Bytes arrived whose checksum is not the one that the provider keeps of the object, after all attempts.

    Args:
        message: which object, what was compared, and what to do next.
        algorithm: the checksum's name, such as ``crc64nvme``.
        expected: what the provider says, as it writes it.
        computed: what the bytes have, written in the same way.
        context: the fields of ``StoreError``.
    """

    def __init__(
        self, message: str, *, algorithm: str = "", expected: str = "", computed: str = "", **context: Any
    ) -> None:
        super().__init__(message, **context)
        self.algorithm = algorithm
        self.expected = expected
        self.computed = computed

    def __reduce__(self) -> tuple[Any, tuple[type[StoreError], str, dict[str, object]]]:
        rebuild, (kind, message, fields) = super().__reduce__()
        own = {name: getattr(self, name) for name in ("algorithm", "expected", "computed")}
        return rebuild, (kind, message, {**fields, **own})


class TransportError(StoreError):
    """No usable answer arrived after all attempts: no connection, a reset, a stall, a TLS failure, a server error."""


class UnsupportedError(StoreError, NotImplementedError):
    """The store cannot do this at all."""
