"""The list of a checkpoint's files with their sizes and checksums, which lies beside its metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Self

from torchbucket.errors import CheckpointError

__all__ = ["MANIFEST_NAME", "FileRecord", "Manifest"]

MANIFEST_NAME: Final = ".torchbucket.json"
_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRecord:
    """What was written of one file.

    Args:
        size_bytes: its length.
        crc64nvme: the checksum of its bytes, base64 of eight, the highest first; None where the server has put the file
            together of bytes whose checksum nobody knows.
        version: what the store called its content when it was written; another one is a copy, or altered.
        items: length and checksum of each item, in the order in which they are in the file.
    """

    size_bytes: int
    crc64nvme: str | None
    version: str | None
    items: tuple[tuple[int, str], ...]

    def sums(self) -> dict[int, tuple[int, str]]:
        """Length and checksum of each item by where in the file it begins."""
        offset, found = 0, {}
        for length, value in self.items:
            found[offset] = (length, value)
            offset += length
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The files of one save.

    Args:
        save_id: which save, as the metadata has it.
        files: what was written of each, by its path below the checkpoint.
    """

    save_id: str
    files: Mapping[str, FileRecord]

    def content(self) -> bytes:
        """The file's bytes: JSON."""
        files = {name: asdict(record) for name, record in sorted(self.files.items())}
        return json.dumps({"format": _FORMAT, "save_id": self.save_id, "files": files}).encode() + b"\n"

    @classmethod
    def parse(cls, content: bytes | bytearray | memoryview, uri: str) -> Self:
        """Read the file.

        Raises:
            CheckpointError: it is damaged, or of a later release.
        """
        try:
            read = json.loads(bytes(content))
            if read["format"] != _FORMAT:
                raise CheckpointError(
                    f"{uri}: format {read['format']!r}, and this release of torchbucket reads {_FORMAT}: use a "
                    "later one",
                    uri=uri,
                )
            files = {
                str(name): FileRecord(
                    size_bytes=int(record["size_bytes"]),
                    crc64nvme=None if record["crc64nvme"] is None else str(record["crc64nvme"]),
                    version=None if record["version"] is None else str(record["version"]),
                    items=tuple((int(length), str(value)) for length, value in record["items"]),
                )
                for name, record in read["files"].items()
            }
            return cls(save_id=str(read["save_id"]), files=files)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"{uri}: no manifest of torchbucket, or damaged ({type(error).__name__}: {error})", uri=uri
            ) from error

    def differences(self, sizes_bytes: Mapping[str, int], needed: Iterable[str]) -> list[str]:
        """What is wrong with the files that are there, a line for each that is missing or of another size.

        Args:
            sizes_bytes: the length of each file that is there.
            needed: the names of those that are to be read.
        """
        found = []
        for name in sorted(set(needed)):
            record, size_bytes = self.files.get(name), sizes_bytes.get(name)
            if size_bytes is None:
                found.append(f"{name} is missing")
            elif record is not None and record.size_bytes != size_bytes:
                found.append(f"{name} has {size_bytes:,} bytes, and {record.size_bytes:,} were written")
        return found
