"""Errors by the codes that S3 and the XML API of GCS share; each dialect gives them its status and its wording."""

from collections.abc import Mapping
from typing import ClassVar, Self

__all__ = ["ProviderError", "RestError"]


class RestError(Exception):
    """A request is refused.

    Args:
        code: the providers' word for it, such as `NoSuchKey`; what S3 and GCS call differently has S3's code.
        message: more than the code's own message, or None.
        fields: further elements of the error document, such as `Key` or `BucketName`.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self.code = code
        self.detail = message
        self.fields = dict(fields or {})
        self.headers = headers or []
        super().__init__(code if message is None else f"{code}: {message}")


class ProviderError(RestError):
    """An error as a provider answers it: its code, one of `codes`, decides the status and the message.

    A subclass has the provider's `codes`, with status and wording, and its `usual` code of a status.
    """

    codes: ClassVar[Mapping[str, tuple[int, str]]]
    usual: ClassVar[Mapping[int, str]]

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        super().__init__(code, message, fields=fields, headers=headers)
        self.status, self.wording = self.codes[code]

    @classmethod
    def of_status(cls, status: int, code: str | None = None, message: str | None = None) -> Self:
        """Returns an error that has this status whatever its code says; without a code the provider's usual one."""
        known = code or cls.usual.get(status, "InternalError" if status >= 500 else "InvalidRequest")
        error = cls(known if known in cls.codes else "InternalError")
        error.code, error.status, error.wording = known, status, message or error.wording
        return error
