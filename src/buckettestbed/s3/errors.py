"""S3's error codes, and the translation of the model's errors into them.

Where S3 has one wording for a code it is given, since clients read it: s3fs knows a changed object by "pre-conditions".
*Source*: Amazon S3 API reference, error responses.
"""

from collections.abc import Mapping

from buckettestbed.model.errors import (
    BucketExistsError,
    BucketMissingError,
    BucketNotEmptyError,
    InvalidBucketNameError,
    ModelError,
    UploadMissingError,
)
from buckettestbed.rest.errors import ProviderError, RestError

__all__ = ["S3Error", "translated"]

_CODES: Mapping[str, tuple[int, str]] = {
    "AccessDenied": (403, "Access Denied"),
    "AuthorizationHeaderMalformed": (400, "The Authorization header is malformed."),
    "AuthorizationQueryParametersError": (400, "The signature in the query is malformed."),
    "BadDigest": (400, "The checksum you gave does not match the bytes that arrived."),
    "BucketAlreadyOwnedByYou": (
        409,
        "Your previous request to create the named bucket succeeded and you already own it.",
    ),
    "BucketNotEmpty": (409, "The bucket you tried to delete is not empty"),
    "EntityTooLarge": (400, "Your proposed upload exceeds the maximum allowed size"),
    "EntityTooSmall": (400, "Your proposed upload is smaller than the minimum allowed size"),
    "ExpiredToken": (400, "The provided token has expired."),
    "IncompleteBody": (400, "You did not provide the number of bytes specified by the Content-Length HTTP header"),
    "InternalError": (500, "The testbed failed; its log on standard error says how."),
    "InvalidAccessKeyId": (403, "The AWS Access Key Id you provided does not exist in our records."),
    "InvalidArgument": (400, "Invalid Argument"),
    "InvalidBucketName": (400, "The specified bucket is not valid."),
    "InvalidDigest": (400, "The Content-MD5 you specified was invalid."),
    "InvalidLocationConstraint": (400, "The location constraint is no region of S3."),
    "InvalidPart": (
        400,
        "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified"
        " entity tag may not match the part's entity tag.",
    ),
    "InvalidPartNumber": (416, "The requested partnumber is not satisfiable"),
    "InvalidPartOrder": (400, "The list of parts was not in ascending order. Parts must be ordered by part number."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidRequest": (400, "The request is not valid."),
    "InvalidToken": (400, "The provided token is malformed or otherwise invalid."),
    "InvalidStorageClass": (400, "The storage class you specified is not valid"),
    "InvalidURI": (400, "Couldn't parse the specified URI."),
    "KeyTooLongError": (400, "Your key is too long"),
    "MalformedTrailerError": (400, "The aws-chunked body or its trailer is malformed."),
    "MalformedXML": (400, "The XML you provided was not well-formed or did not validate against our published schema"),
    "MaxMessageLengthExceeded": (400, "Your request was too big."),
    "MetadataTooLarge": (400, "Your metadata headers exceed the maximum allowed metadata size"),
    "MethodNotAllowed": (405, "The specified method is not allowed against this resource."),
    "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchUpload": (
        404,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or"
        " completed.",
    ),
    "NotImplemented": (501, "The testbed does not implement what the request asks for."),
    "NotModified": (304, "Not modified."),
    "OperationAborted": (
        409,
        "A conflicting conditional operation is currently in progress against this resource. Please try again.",
    ),
    "PreconditionFailed": (412, "At least one of the pre-conditions you specified did not hold"),
    "RequestTimeTooSkewed": (403, "The difference between the request time and the current time is too large."),
    "RequestTimeout": (
        400,
        "Your socket connection to the server was not read from or written to within the timeout period.",
    ),
    "SignatureDoesNotMatch": (
        403,
        "The request signature we calculated does not match the signature you provided. Check your key and signing"
        " method.",
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


class S3Error(ProviderError):
    """An answer of S3 that is an error."""

    codes = _CODES
    usual = _USUAL_CODES

    @property
    def message(self) -> str:
        """What S3 says of it."""
        return self.detail or self.wording


def translated(error: ModelError | RestError) -> S3Error:
    """Returns S3's error for one of the model's, or of the code that it shares with GCS."""
    name = str(error)
    match error:
        case S3Error():
            return error
        case RestError():
            return S3Error(error.code, error.detail, fields=error.fields, headers=error.headers)
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
