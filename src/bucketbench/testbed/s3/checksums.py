"""Checksums that clients send with their uploads, verified, and how those of parts make that of a whole."""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence

from bucketbench.testbed.model.digests import digests_of
from bucketbench.testbed.s3.errors import S3Error

__all__ = ["ALGORITHMS", "checksum_headers", "composite", "content_md5", "verify"]

ALGORITHMS: Mapping[str, int] = {"crc32": 4, "crc32c": 4, "crc64nvme": 8, "sha1": 20, "sha256": 32}
"""Lower-case names of `x-amz-checksum-*` and the digests' lengths in bytes. *Source*: Amazon S3 user guide, object
integrity."""


def checksum_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the `x-amz-checksum-*` values among headers or trailers, by algorithm; raises InvalidRequest for one that
    is malformed.

    A value with a `-N` suffix (a checksum of parts' checksums) is taken as it is.
    """
    found: dict[str, str] = {}
    for algorithm, length_bytes in ALGORITHMS.items():
        value = headers.get("x-amz-checksum-" + algorithm)
        if value is None:
            continue
        try:
            well_formed = len(base64.b64decode(value.partition("-")[0], validate=True)) == length_bytes
        except binascii.Error:
            well_formed = False
        if not well_formed:
            raise S3Error("InvalidRequest", f"Value for x-amz-checksum-{algorithm} header is invalid.")
        found[algorithm] = value
    return found


def content_md5(headers: Mapping[str, str]) -> bytes | None:
    """Returns the digest of a Content-MD5 header, or None; raises InvalidDigest for one that is malformed."""
    value = headers.get("content-md5")
    if value is None:
        return None
    try:
        digest = base64.b64decode(value, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != 16:
        raise S3Error("InvalidDigest", fields={"Content-MD5": value})
    return digest


def verify(sent: Mapping[str, str], digests: Mapping[str, bytes]) -> None:
    """Raises BadDigest where a checksum that was sent differs from the digest of what arrived."""
    for algorithm, value in sent.items():
        digest = digests.get(algorithm)
        if digest is not None and base64.b64encode(digest).decode() != value:
            raise S3Error(
                "BadDigest",
                f"The {algorithm.upper()} you specified did not match the calculated checksum.",
                fields={"Expected": value, "Calculated": base64.b64encode(digest).decode()},
            )


def composite(algorithm: str, parts: Sequence[str]) -> str:
    """Returns S3's checksum of a multipart object from its parts' checksums: that of the digests joined, and `-` their
    number."""
    joined = b"".join(base64.b64decode(part) for part in parts)
    match algorithm:
        case "crc32" | "crc32c":
            digest = digests_of([joined], [algorithm])[algorithm]
        case "sha1" | "sha256":
            digest = hashlib.new(algorithm, joined, usedforsecurity=False).digest()
        case _:
            raise S3Error(
                "InvalidRequest", f"{algorithm.upper()} has no checksum of parts, only one of the full object."
            )
    return f"{base64.b64encode(digest).decode()}-{len(parts)}"
