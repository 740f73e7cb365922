"""S3's error codes, and the translation of the model's errors into them. *Source*: Amazon S3 API reference, error
responses."""

from collections.abc import Mapping

from bucketbench.testbed.model.objects import (
    BucketExistsError,
    BucketMissingError,
    BucketNotEmptyError,
    InvalidBucketNameError,
    ModelError,
    UploadMissingError,
)
from bucketbench.testbed.rest.errors import RestError

__all__ = ["S3Error", "from_model", "from_rest"]

_CODES: Mapping[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied"),
    "AuthorizationHeaderMalformed": (400, "The Authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The signature in the query is malformed."),
    "BadDigest": (400, "The checksum you gave does not match the bytes that arrived."),
    "BucketAlreadyOwnedByYou": (409, "You own a bucket of this name already."),
    "BucketNotEmpty": (409, "The bucket still has objects; delete them first."),
    "EntityTooLarge": (400, "The upload is larger than the maximum allowed size."),
    "EntityTooSmall": (400, "A part other than the last is smaller than the minimum allowed size."),
    "ExpiredToken": (400, "The session token has expired."),
    "IncompleteBody": (400, "Fewer bytes arrived than the request declared."),
    "InternalError": (500, "The testbed failed; its log on standard error says how."),
    "InvalidAccessKeyId": (403, "No access key has this id."),
    "InvalidArgument": (400, "An argument is not valid."),
    "InvalidBucketName": (400, "The bucket name is not valid."),
    "InvalidDigest": (400, "The Content-MD5 you gave is not an MD5 in base64."),
    "InvalidLocationConstraint": (400, "The location constraint is no region of S3."),
    "InvalidPart": (400, "A part was not found, or its ETag is another than you gave."),
    "InvalidPartNumber": (416, "The object has no part of this number."),
    "InvalidPartOrder": (400, "The parts must be listed in ascending order of their numbers."),
    "InvalidRange": (416, "No byte of the range lies in the object."),
    "InvalidRequest": (400, "The request is not valid."),
    "InvalidToken": (400, "The session token is not the one of this access key."),
    "InvalidStorageClass": (400, "The storage class is none of S3's."),
    "InvalidURI": (400, "The path is not percent-encoded UTF-8."),
    "KeyTooLongError": (400, "The key is longer than 1,024 bytes of UTF-8."),
    "MalformedTrailerError": (400, "The aws-chunked body or its trailer is malformed."),
    "MalformedXML": (400, "The XML is not well-formed or not of the expected schema."),
    "MaxMessageLengthExceeded": (400, "The request is too large."),
    "MetadataTooLarge": (400, "The user metadata is larger than 2 KiB."),
    "MethodNotAllowed": (405, "The method is not allowed on this resource."),
    "MissingContentLength": (411, "The request needs a Content-Length."),
    "NoSuchBucket": (404, "The bucket does not exist."),
    "NoSuchKey": (404, "The key does not exist."),
    "NoSuchUpload": (404, "The upload does not exist: it was completed, aborted or never created."),
    "NotImplemented": (501, "The testbed does not implement what the request asks for."),
    "NotModified": (304, "Not modified."),
    "OperationAborted": (409, "A conflicting operation is in progress against this resource; try again."),
    "PreconditionFailed": (412, "A precondition of the request does not hold."),
    "RequestTimeTooSkewed": (403, "The request's time differs too much from the server's."),
    "RequestTimeout": (400, "The connection was not read from or written to within the time limit."),
    "SignatureDoesNotMatch": (
        403,
        "The signature calculated for the request is another than the one provided; check the secret access key and"
        " how the request is signed.",
    ),
    "SlowDown": (503, "Please reduce your request rate."),
    "TooManyRequests": (429, "Please reduce your request rate."),
    "XAmzContentSHA256Mismatch": (400, "The x-amz-content-sha256 you gave does not match the body that arrived."),
}


_USUAL_CODES: Mapping[int, str] = {
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    408: "RequestTimeout",
    409: "OperationAborted",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
}


class S3Error(RestError):
    """An answer of S3 that is an error.

    Args:
        code: one of S3's codes; it decides the status.
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
        super().__init__(code, message, fields=fields, headers=headers)
        self.status, default = _CODES[code]
        self.message = message or default

    @classmethod
    def of_status(cls, status: int, code: str | None = None, message: str | None = None) -> "S3Error":
        """Returns an error that has this status whatever its code says; without a code S3's usual one for it."""
        known = code or _USUAL_CODES.get(status, "InternalError" if status >= 500 else "InvalidRequest")
        error = cls(known if known in _CODES else "InternalError", message)
        error.code, error.status = known, status
        return error


def from_rest(error: RestError) -> S3Error:
    """Returns S3's error for one of the code that it shares with GCS."""
    if isinstance(error, S3Error):
        return error
    return S3Error(error.code, error.detail, fields=error.fields, headers=error.headers)


def from_model(error: ModelError) -> S3Error:
    """Returns S3's error for one of the model's."""
    name = str(error)
    match error:
        case BucketMissingError():
            return S3Error("NoSuchBucket", fields={"BucketName": name})
        case BucketExistsError():
            return S3Error("BucketAlreadyOwnedByYou", fields={"BucketName": name})
        case BucketNotEmptyError():
            return S3Error("BucketNotEmpty", fields={"BucketName": name})
        case InvalidBucketNameError():
            return S3Error("InvalidBucketName", fields={"BucketName": name})
        case UploadMissingError():
            return S3Error("NoSuchUpload", fields={"UploadId": name})
    return S3Error("InvalidRequest", name)
