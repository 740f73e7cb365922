"""Writes whose bytes all exist already: in the caller's memory, or in another object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torchbucket.config import MIB, StoreConfig
from torchbucket.errors import StoreError
from torchbucket.store.conditions import Condition
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.part_upload import PartUpload
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.body import Body, in_parts
from torchbucket.store.transport.transport import Transport

__all__ = ["COPY_PART_BYTES", "copy_in_parts", "part_bytes_of", "write_from_memory"]

COPY_PART_BYTES: Final = 512 * MIB
"""The length of a copy's parts. They carry no bytes through this process, so they are large. *Source:* few requests; S3
allows 5 GiB."""


def part_bytes_of(size_bytes: int, part_bytes: int, most_parts: int) -> int:
    """The length of the parts of an object of known size: ``part_bytes``, or the whole MiB that ``most_parts`` need."""
    least_bytes = -(-size_bytes // most_parts)
    return max(part_bytes, -(-least_bytes // MIB) * MIB)


def write_from_memory(
    transport: Transport,
    dialect: Dialect,
    config: StoreConfig,
    key: str,
    pieces: Sequence[memoryview],
    condition: Condition | None,
    *,
    multipart: bool = True,
) -> ObjectInfo:
    """Write an object straight from the caller's memory, which must not change meanwhile; in parts above one part.

    Atomic like a writer's: on any failure, an interrupt too, the upload is aborted.

    Args:
        transport: runs the requests.
        dialect: makes them.
        config: what is sent in one request; more where the object would need too many.
        key: the object's key.
        pieces: flat views of bytes, one after another.
        condition: what must hold of the key.
        multipart: whether several requests may be made; without, the object is one whatever its size.

    Raises:
        StoreError: the write failed, or the object is too large for the one request that may be made.
    """
    size_bytes, part_bytes = sum(map(len, pieces)), config.part_size_bytes
    if not multipart and size_bytes > dialect.largest_part_bytes:
        uri = dialect.address(key)
        raise StoreError(
            f"write {uri}: the object has {size_bytes} bytes, and one request takes {dialect.largest_part_bytes}: "
            "leave multipart switched on, or write several objects",
            operation="write",
            uri=uri,
        )
    if size_bytes <= part_bytes or not multipart:
        body = Body(pieces)
        return transport.run(dialect.put_object(key, body, dialect.upload_sum.of(body.pieces), condition=condition))
    # Each part is summed when it is made, so not all of them are made before the first has arrived.
    with PartUpload(transport, dialect, key, condition, most_pending=2 * config.concurrency) as upload:
        for body in in_parts(pieces, part_bytes_of(size_bytes, part_bytes, dialect.most_parts)):
            upload.send(body, dialect.upload_sum.of(body.pieces))
        return upload.complete()


def copy_in_parts(
    transport: Transport, dialect: Dialect, config: StoreConfig, source: ObjectInfo, target_key: str
) -> ObjectInfo:
    """Copy an object that is too large for one request, part by part, on the server's side."""
    size_bytes = source.size_bytes
    part_bytes = part_bytes_of(size_bytes, COPY_PART_BYTES, dialect.most_parts)
    with PartUpload(transport, dialect, target_key, most_pending=2 * config.concurrency) as upload:
        for start in range(0, size_bytes, part_bytes):
            upload.send_copy(source, start, min(start + part_bytes, size_bytes))
        return upload.complete()
