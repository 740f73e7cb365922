"""What follows an object's bytes in its file: all else that is known of it."""

import json
import os
from pathlib import Path

from buckettestbed.model.errors import DirectoryError
from buckettestbed.model.files import FileContent
from buckettestbed.model.objects import Attributes, StoredObject

__all__ = ["read_object", "record_bytes"]

_MAGIC = b"BBTESTB2"
"""Ends every object's file."""

_TAIL_BYTES = len(_MAGIC) + 4


def record_bytes(found: StoredObject) -> bytes:
    """Returns what follows an object's bytes in its file: JSON, its length in four bytes (big-endian), the magic."""
    record = {
        "key": found.key,
        "size_bytes": found.size_bytes,
        "etag": found.etag,
        "encryption": found.encryption,
        "crc32c": found.content.crc32c.hex(),
        "created_s": found.created_s,
        "modified_s": found.modified_s,
        "generation": found.generation,
        "metageneration": found.metageneration,
        "part_sizes_bytes": found.part_sizes_bytes,
        "part_checksums": found.part_checksums,
        "headers": dict(found.attributes.headers),
        "metadata": dict(found.attributes.metadata),
        "checksums": dict(found.attributes.checksums),
        "checksum_type": found.attributes.checksum_type,
        "storage_class": found.attributes.storage_class,
    }
    encoded = json.dumps(record, separators=(",", ":")).encode()
    return encoded + len(encoded).to_bytes(4, "big") + _MAGIC


def read_object(path: Path) -> StoredObject:
    """Returns the object in a file; raises DirectoryError where it holds none."""
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - 4096))
        tail = file.read()
        length = int.from_bytes(tail[-_TAIL_BYTES : -len(_MAGIC)], "big")
        if not tail.endswith(_MAGIC) or length > size_bytes - _TAIL_BYTES:
            raise DirectoryError(f"{path} is not an object: it does not end in a record; remove it")
        if length + _TAIL_BYTES > len(tail):
            file.seek(size_bytes - length - _TAIL_BYTES)
            tail = file.read()
    record = json.loads(tail[-length - _TAIL_BYTES : -_TAIL_BYTES])
    return StoredObject(
        key=record["key"],
        content=FileContent(path, record["size_bytes"], crc32c=bytes.fromhex(record["crc32c"])),
        etag=record["etag"],
        encryption=record["encryption"],
        created_s=record["created_s"],
        modified_s=record["modified_s"],
        generation=record["generation"],
        metageneration=record["metageneration"],
        attributes=Attributes(
            headers=record["headers"],
            metadata=record["metadata"],
            checksums=record["checksums"],
            checksum_type=record["checksum_type"],
            storage_class=record["storage_class"],
        ),
        part_sizes_bytes=tuple(record["part_sizes_bytes"]),
        part_checksums=tuple(record["part_checksums"]),
    )
