"""Errors by the codes that S3 and the XML API of GCS share; each dialect gives them its status and its wording."""

from collections.abc import Mapping

__all__ = ["RestError"]


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
