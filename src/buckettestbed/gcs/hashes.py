"""CRC-32C and MD5 of objects as GCS's two APIs show them and as clients send them. *Source*: Cloud Storage
documentation, hashes and ETags: base64 of the big-endian CRC-32C and of the MD5; no MD5 of composite objects."""

import asyncio
import base64
import binascii
from collections.abc import Collection, Mapping

from buckettestbed.model.contents import Received, pieces
from buckettestbed.model.digests import digests_of
from buckettestbed.model.objects import StoredObject

__all__ = [
    "HashMismatchError",
    "InvalidHashError",
    "Stated",
    "base64_text",
    "hash_header",
    "parse_hash",
    "parse_hashes",
    "verify",
    "verify_received",
]

_LENGTHS_BYTES = {"crc32c": 4, "md5": 16}

Stated = frozenset[tuple[str, bytes]]
"""Digests that a client states of its bytes: algorithm, `crc32c` or `md5`, and digest. The same algorithm may be there
with several, of which at most one can be right."""


class InvalidHashError(ValueError):
    """What a client sent as a hash is none."""


class HashMismatchError(ValueError):
    """The bytes that arrived do not have the hash that the client stated.

    Args:
        algorithm: `crc32c` or `md5`.
        stated: base64 of what the client sent.
        arrived: base64 of what the bytes have.
    """

    def __init__(self, algorithm: str, stated: str, arrived: str) -> None:
        self.algorithm = algorithm
        self.stated = stated
        self.arrived = arrived
        super().__init__(f"the {algorithm} of what arrived is {arrived}, the request states {stated}")


def base64_text(digest: bytes) -> str:
    """Returns a digest as GCS shows it."""
    return base64.b64encode(digest).decode()


def hash_header(found: StoredObject) -> bytes:
    """Returns the value of x-goog-hash for an object: `crc32c=…`, and `,md5=…` where it is known."""
    md5 = found.md5
    value = b"crc32c=" + base64.b64encode(found.content.crc32c)
    return value if md5 is None else value + b",md5=" + base64.b64encode(md5)


def parse_hash(algorithm: str, text: str) -> bytes:
    """Returns the digest that a base64 text holds; raises InvalidHashError."""
    try:
        digest = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeError):
        digest = b""
    if len(digest) != _LENGTHS_BYTES[algorithm]:
        expected = f"base64 of {_LENGTHS_BYTES[algorithm]} bytes"
        raise InvalidHashError(f"the {algorithm} sent is {text!r}; expected {expected}")
    return digest


def parse_hashes(header: str) -> Stated:
    """Returns the digests that a client's x-goog-hash header states, `crc32c` and `md5`; others are ignored.

    Raises InvalidHashError.
    """
    stated = set()
    for item in header.split(","):
        name, _, value = item.strip().partition("=")
        if name.lower() in _LENGTHS_BYTES:
            stated.add((name.lower(), parse_hash(name.lower(), value.strip())))
    return frozenset(stated)


def verify(stated: Collection[tuple[str, bytes]], arrived: Mapping[str, bytes]) -> None:
    """Raises HashMismatchError where a digest that a client stated is not the one that the bytes have.

    Args:
        stated: algorithms and digests. Two of one algorithm, such as a header's and the metadata's, must both be right.
        arrived: digests of the bytes; one that is not there (the MD5 of a composite) is not compared.
    """
    for algorithm, digest in sorted(stated):
        if algorithm in arrived and arrived[algorithm] != digest:
            raise HashMismatchError(algorithm, base64_text(digest), base64_text(arrived[algorithm]))


async def verify_received(stated: Collection[tuple[str, bytes]], received: Received) -> None:
    """Raises HashMismatchError, having released what arrived, where it has another digest than the client stated.

    An MD5 that was stated when the bytes were there, and is computed for no other reason, is computed now.
    """
    content, digests = received.content, received.digests
    try:
        late = {algorithm for algorithm, _ in stated} - digests.keys()
        if late:
            read = pieces(content, 0, content.size_bytes)
            digests = {**digests, **await asyncio.to_thread(digests_of, read, late)}
        verify(stated, digests)
    except BaseException:
        content.release()
        raise
