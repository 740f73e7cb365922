"""Checksums that clients send with their uploads, verified, and how those of parts make that of a whole."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence

from buckettestbed.model.contents import pieces
from buckettestbed.model.digests import CRC_BYTES, combine_crcs, digests_of
from buckettestbed.model.objects import Part
from buckettestbed.s3.errors import S3Error
from buckettestbed.serving.xml import element

__all__ = [
    "ALGORITHMS",
    "DEFAULT_CHECKSUM",
    "checksum_elements",
    "checksum_headers",
    "composite",
    "content_md5",
    "of_full_object",
    "stated_headers",
    "verify",
]

ALGORITHMS: Mapping[str, int] = {"crc32": 4, "crc32c": 4, "crc64nvme": 8, "sha1": 20, "sha256": 32}
"""Lower-case names of `x-amz-checksum-*` and the digests' lengths in bytes. *Source*: Amazon S3 user guide, object
integrity."""

DEFAULT_CHECKSUM = "crc64nvme"
"""What is computed where no client states a checksum. *Source*: Amazon S3 user guide, object integrity: since December
2024."""


def stated_headers(checksums: Mapping[str, str], checksum_type: str | None = None) -> list[tuple[bytes, bytes]]:
    """Returns checksums as the headers of an answer, with their type where one is given."""
    headers = [(f"x-amz-checksum-{name}".encode(), value.encode()) for name, value in checksums.items()]
    if checksums and checksum_type is not None:
        headers.append((b"x-amz-checksum-type", checksum_type.encode()))
    return headers


def checksum_elements(checksums: Mapping[str, str], checksum_type: str | None = None) -> list[str]:
    """Returns checksums as elements of a document, with their type where one is given."""
    elements = [element(f"Checksum{name.upper()}", value) for name, value in checksums.items()]
    if checksums and checksum_type is not None:
        elements.append(element("ChecksumType", checksum_type))
    return elements


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


async def of_full_object(algorithm: str, parts: Sequence[Part]) -> str:
    """Returns the checksum of the parts joined, out of theirs; what a part does not have is computed in a thread."""
    assert algorithm in CRC_BYTES, "only CRCs can be combined"
    crcs: list[tuple[bytes, int]] = []
    for part in parts:
        if (stated := part.checksums.get(algorithm)) is not None:
            crc = base64.b64decode(stated)
        else:
            read = pieces(part.content, 0, part.content.size_bytes)
            crc = (await asyncio.to_thread(digests_of, read, [algorithm]))[algorithm]
        crcs.append((crc, part.content.size_bytes))
    return base64.b64encode(combine_crcs(algorithm, crcs)).decode()
