"""The JSON API's errors, and the translation of the model's and of both APIs' common ones into them.

*Source*: Cloud Storage documentation, JSON API status and error codes.
"""

import json
from collections.abc import Mapping

from buckettestbed.gcs.hashes import HashMismatchError, InvalidHashError
from buckettestbed.gcs.names import InvalidObjectNameError
from buckettestbed.gcs.preconditions import InvalidConditionError, NotModifiedError, UnmetConditionError
from buckettestbed.model.contents import ContentGoneError
from buckettestbed.model.errors import (
    BucketExistsError,
    BucketMissingError,
    BucketNotEmptyError,
    InvalidBucketNameError,
    ModelError,
)
from buckettestbed.serving.messages import BodyTooLargeError, Response

__all__ = ["JSON_HEADER", "JsonError", "error_response", "translated"]

JSON_HEADER = (b"content-type", b"application/json; charset=UTF-8")

_TEXT_HEADER = (b"content-type", b"text/html; charset=UTF-8")

_USUAL: Mapping[int, tuple[str, str]] = {
    400: ("invalid", "The request is not valid."),
    401: ("required", "Anonymous caller does not have access to what was asked for (or it may not exist)."),
    403: ("forbidden", "Access is denied."),
    404: ("notFound", "Not Found"),
    405: ("methodNotAllowed", "The method is not allowed on this resource."),
    408: ("uploadBrokenConnection", "The request timed out. Please try again."),
    409: ("conflict", "The request conflicts with the state of the resource."),
    410: ("uploadGone", "The upload session is gone; start a new one."),
    411: ("lengthRequired", "The request needs a Content-Length."),
    412: ("conditionNotMet", "At least one of the pre-conditions you specified did not hold."),
    413: ("uploadTooLarge", "The request is too large."),
    416: ("requestedRangeNotSatisfiable", "Request range not satisfiable"),
    429: ("rateLimitExceeded", "Please reduce your request rate."),
    499: ("clientClosedRequest", "The upload was cancelled."),
    500: ("internalError", "The testbed failed; its log on standard error says how."),
    501: ("notImplemented", "The testbed does not implement what the request asks for."),
    502: ("badGateway", "Bad gateway; please try again."),
    503: ("backendError", "Backend error; please try again."),
    504: ("gatewayTimeout", "Gateway timeout; please try again."),
}
"""Reason and message for a status."""


class JsonError(Exception):
    """An answer of the JSON API that is an error.

    Args:
        status: of the answer.
        message: for people; None for the status's usual one.
        reason: GCS's word for it; None for the status's usual one.
        parameter: the request's parameter or header that is wrong, if one is.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str | None = None,
        *,
        reason: str | None = None,
        parameter: str | None = None,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        usual_reason, usual_message = _USUAL.get(status, _USUAL[400 if status < 500 else 500])
        self.status = status
        self.reason = reason or usual_reason
        self.message = message or usual_message
        self.parameter = parameter
        self.headers = headers or []
        super().__init__(f"{status} {self.reason}: {self.message}")

    @property
    def document(self) -> bytes:
        """The body of the answer."""
        domain = "usageLimits" if self.status == 429 else "global"
        detail = {"message": self.message, "domain": domain, "reason": self.reason}
        if self.parameter is not None:
            detail |= {"locationType": "parameter", "location": self.parameter}
        content = {"error": {"code": self.status, "message": self.message, "errors": [detail]}}
        return json.dumps(content, indent=1).encode()


def error_response(error: JsonError, *, as_text: bool = False) -> Response:
    """Returns the answer for an error.

    Args:
        error: the error.
        as_text: with the message alone, as downloads have it, instead of the document.
    """
    if error.status == 304:
        return Response(status=304, headers=list(error.headers))
    body = error.message.encode() if as_text else error.document
    return Response(status=error.status, headers=[_TEXT_HEADER if as_text else JSON_HEADER, *error.headers], body=body)


def translated(error: Exception) -> JsonError | None:
    """Returns the JSON API's error for one that the model or the code of both APIs raises, or None for a stranger."""
    text = str(error)
    match error:
        case JsonError():
            return error
        case BucketMissingError():
            return JsonError(404, "The specified bucket does not exist.")
        case BucketExistsError():
            return JsonError(409, "Your previous request to create the named bucket succeeded and you already own it.")
        case BucketNotEmptyError():
            return JsonError(409, "The bucket you tried to delete is not empty.")
        case InvalidBucketNameError():
            return JsonError(400, f"Invalid bucket name: '{text}'")
        case InvalidConditionError():
            return JsonError(400, f"Invalid value: {text}.", reason="invalidParameter", parameter=error.name)
        case UnmetConditionError():
            return JsonError(
                412, "At least one of the pre-conditions you specified did not hold.", parameter=error.condition
            )
        case NotModifiedError():
            return JsonError(304)
        case HashMismatchError():
            return JsonError(
                400,
                f'Provided {error.algorithm.upper()} "{error.stated}" doesn\'t match calculated'
                f' {error.algorithm.upper()} "{error.arrived}".',
            )
        case InvalidHashError():
            return JsonError(400, f"Invalid hash: {text}.")
        case InvalidObjectNameError():
            return JsonError(400, f"Invalid object name: {text}")
        case BodyTooLargeError():
            return JsonError(413, f"The body is too large: {text}.")
        case ModelError():
            return JsonError(409, text)
        case ContentGoneError():
            return JsonError(500, f"The object's bytes are gone: {text}.")
    return None
