"""AWS's signature version 2 of presigned addresses, which boto3 still makes unless told otherwise. *Source*: Amazon S3
user guide, "Signing and authenticating REST requests", query string request authentication."""

import base64
import hmac
from collections.abc import Mapping
from urllib.parse import unquote

from buckettestbed.serving.messages import Request

__all__ = ["expiry_s", "presigned_signature", "presigned_text"]

_SIGNED_PARAMETERS = frozenset(
    {
        "acl",
        "cors",
        "delete",
        "lifecycle",
        "location",
        "logging",
        "notification",
        "partNumber",
        "policy",
        "requestPayment",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
        "restore",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
        "website",
    }
)
"""*Source*: the same page, CanonicalizedResource."""

_TOKEN = "x-amz-security-token"  # noqa: S105 - a parameter's name, no secret.


def presigned_text(request: Request, bucket_in_host: str) -> bytes:
    """Returns what the sender of a presigned request has signed.

    Args:
        request: its `Expires` stands in place of the date; its session token, in the query, counts as a header.
        bucket_in_host: the bucket that is addressed by the host name, empty where the path has it.
    """
    headers = request.headers
    amazon = {name: " ".join(value.split()) for name, value in headers.items() if name.startswith("x-amz-")}
    if _TOKEN in request.query:
        amazon[_TOKEN] = request.query[_TOKEN]
    lines = [
        request.method,
        headers.get("content-md5", ""),
        headers.get("content-type", ""),
        request.query.get("Expires", ""),
        *(f"{name}:{amazon[name]}" for name in sorted(amazon)),
        _resource(request.raw_path, request.raw_query, bucket_in_host),
    ]
    return "\n".join(lines).encode("latin-1")


def _resource(raw_path: bytes, raw_query: bytes, bucket_in_host: str) -> str:
    """Returns the canonical resource: the path as it was sent, below its bucket, and those parameters that are
    signed, their values decoded."""
    path = raw_path.decode("latin-1")
    if bucket_in_host:
        path = f"/{bucket_in_host}{path}"
    items = (item.partition("=") for item in raw_query.decode("latin-1").split("&"))
    signed = sorted(
        (name, unquote(value, encoding="latin-1") if equals else None)
        for name, equals, value in items
        if name in _SIGNED_PARAMETERS
    )
    query = "&".join(name if value is None else f"{name}={value}" for name, value in signed)
    return f"{path}?{query}" if query else path


def presigned_signature(secret_access_key: str, text: bytes) -> str:
    """Returns the signature, in base64, of a string to sign."""
    return base64.b64encode(hmac.digest(secret_access_key.encode(), text, "sha1")).decode()


def expiry_s(query: Mapping[str, str]) -> int | None:
    """Returns when a presigned address ends, in seconds since the epoch, or None where it does not say so."""
    expires = query.get("Expires", "")
    return int(expires[:18]) if expires.isascii() and expires.isdecimal() else None
