"""Error codes of the XML API, and the translation of the model's and the shared errors into them.

*Source*: Cloud Storage XML API reference, HTTP status and error codes. The `Details` element is in every document,
because google-cloud-storage reads it without looking whether it is there.
"""

from collections.abc import Mapping

from buckettestbed.gcs.hashes import HashMismatchError, InvalidHashError
from buckettestbed.gcs.names import InvalidObjectNameError
from buckettestbed.gcs.preconditions import InvalidConditionError, NotModifiedError, UnmetConditionError
from buckettestbed.model.errors import (
    BucketExistsError,
    BucketMissingError,
    BucketNotEmptyError,
    InvalidBucketNameError,
    ModelError,
    ObjectChangedError,
    UploadMissingError,
)
from buckettestbed.rest.errors import ProviderError, RestError

__all__ = ["TRANSLATED", "XmlApiError", "translated"]

_CODES: Mapping[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access denied."),
    "AuthenticationRequired": (401, "Authentication required."),
    "BadDigest": (400, "The MD5 of the bytes that arrived is not the one you gave."),
    "BucketAlreadyOwnedByYou": (409, "You own a bucket of this name already."),
    "BucketNotEmpty": (409, "The bucket still has objects; delete them first."),
    "CrcMismatch": (400, "The CRC32C of the bytes that arrived is not the one you gave."),
    "EntityTooLarge": (400, "The upload is larger than the maximum allowed size."),
    "EntityTooSmall": (400, "A part other than the last is smaller than the minimum allowed size."),
    "IncompleteBody": (400, "Another number of bytes arrived than the request declared."),
    "InternalError": (500, "The testbed failed; its log on standard error says how."),
    "InvalidArgument": (400, "An argument is not valid."),
    "InvalidBucketName": (400, "The bucket name is not valid."),
    "InvalidDigest": (400, "A digest you gave is not base64 of its length."),
    "InvalidPart": (400, "A part was not found, or its ETag is another than you gave."),
    "InvalidPartOrder": (400, "The parts must be listed in ascending order of their numbers."),
    "InvalidRange": (416, "No byte of the range lies in the object."),
    "InvalidRequest": (400, "The request is not valid."),
    "InvalidStorageClass": (400, "The storage class is none of Cloud Storage's."),
    "InvalidURI": (400, "The path is not percent-encoded UTF-8."),
    "KeyTooLong": (400, "The object's name is longer than 1,024 bytes of UTF-8."),
    "MalformedXML": (400, "The XML is not well-formed or not of the expected schema."),
    "MaxMessageLengthExceeded": (400, "The request is too large."),
    "MetadataTooLarge": (400, "The custom metadata is larger than 8 KiB."),
    "MethodNotAllowed": (405, "The method is not allowed on this resource."),
    "NoSuchBucket": (404, "The bucket does not exist."),
    "NoSuchKey": (404, "The object does not exist."),
    "NoSuchUpload": (404, "The upload does not exist: it was completed, aborted or never created."),
    "NotImplemented": (501, "The testbed does not implement what the request asks for."),
    "NotModified": (304, "Not modified."),
    "OperationAborted": (409, "Another operation on the object came between; try again."),
    "PreconditionFailed": (412, "A precondition of the request does not hold."),
    "RequestTimeout": (408, "The connection was not read from or written to within the time limit."),
    "ServiceUnavailable": (503, "The service is unavailable; try again."),
    "SlowDown": (429, "Please reduce your request rate."),
}

_USUAL_CODES: Mapping[int, str] = {
    400: "InvalidArgument",
    401: "AuthenticationRequired",
    403: "AccessDenied",
    404: "NoSuchKey",
    408: "RequestTimeout",
    409: "OperationAborted",
    412: "PreconditionFailed",
    429: "SlowDown",
    500: "InternalError",
    503: "ServiceUnavailable",
}

_RENAMED: Mapping[str, str] = {"KeyTooLongError": "KeyTooLong"}
"""What S3 and GCS call differently."""

TRANSLATED = (
    ModelError,
    RestError,
    HashMismatchError,
    InvalidConditionError,
    InvalidHashError,
    InvalidObjectNameError,
    NotModifiedError,
    UnmetConditionError,
)
"""The exceptions that `translated` takes."""


class XmlApiError(ProviderError):
    """An answer of the XML API that is an error; its `detail` says what is wrong in this case."""

    codes = _CODES
    usual = _USUAL_CODES


def translated(error: Exception, resource: str) -> XmlApiError:
    """Returns the API's error for one of `TRANSLATED`.

    Args:
        error: what was raised.
        resource: the bucket, or BUCKET/OBJECT, that the request is about, for the details.
    """
    match error:
        case XmlApiError():
            return error
        case RestError():
            code = _RENAMED.get(error.code, error.code)
            fields = "; ".join(f"{name} {value}" for name, value in error.fields.items())
            details = f"No such object: {resource}" if code == "NoSuchKey" else error.detail or fields
            return XmlApiError(code if code in _CODES else "InvalidRequest", details, headers=error.headers)
        case NotModifiedError():
            return XmlApiError("NotModified")
        case UnmetConditionError():
            return XmlApiError("PreconditionFailed", error.condition)
        case HashMismatchError():
            return XmlApiError("CrcMismatch" if error.algorithm == "crc32c" else "BadDigest", str(error))
        case InvalidHashError():
            return XmlApiError("InvalidDigest", str(error))
        case InvalidConditionError() | InvalidObjectNameError():
            return XmlApiError("InvalidArgument", str(error))
        case BucketMissingError():
            return XmlApiError("NoSuchBucket", str(error))
        case BucketExistsError():
            return XmlApiError("BucketAlreadyOwnedByYou", str(error))
        case BucketNotEmptyError():
            return XmlApiError("BucketNotEmpty", str(error))
        case InvalidBucketNameError():
            return XmlApiError("InvalidBucketName", str(error))
        case UploadMissingError():
            return XmlApiError("NoSuchUpload", str(error))
        case ObjectChangedError():
            return XmlApiError("OperationAborted", str(error))
    return XmlApiError("InvalidRequest", str(error))
