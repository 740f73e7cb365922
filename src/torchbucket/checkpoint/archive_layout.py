"""Where in an archive that ``torch.save`` wrote each storage lies, found from its directory alone."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass
from typing import BinaryIO, Final

from torchbucket.store.protocol import Target

__all__ = ["ARCHIVE_MAGIC", "StorageRecord", "are_where_headers_say", "gaps_between", "storage_records"]

ARCHIVE_MAGIC: Final = b"PK\x03\x04"
"""What an archive begins with. *Source:* ``torch.serialization._is_zipfile``."""

# Source of the lengths: .ZIP File Format Specification (APPNOTE.TXT 6.3.10), 4.3.7 and 4.3.9.
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
_HAS_DESCRIPTOR: Final = 1 << 3
_DESCRIPTOR_BYTES: Final = 16
_DESCRIPTOR64_BYTES: Final = 24
_LARGEST_32: Final = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageRecord:
    """The bytes ``[start, stop)`` of one storage in an archive.

    Args:
        name: what torch asks for it by, such as ``data/0``.
        header_start: where the local header before it begins.
        start: its first byte.
        stop: its end.
    """

    name: str
    header_start: int
    start: int
    stop: int


def storage_records(file: BinaryIO) -> list[StorageRecord] | None:
    """Read an archive's directory and tell where the storages are that have any bytes, in the order of their places.

    The directory tells where each record's header begins, not how long it is. The bytes of a record end where the next
    header begins, less a descriptor of known length: so nothing but the directory is read. That this is so shows once
    the headers are there, see :func:`are_where_headers_say`.

    Returns:
        None where the archive is not one that ``torch.save`` writes: compressed, ambiguous, made by ``torch.jit.save``,
        damaged, or none at all.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
            end = archive.start_dir
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, EOFError):
        return None
    names = [entry.filename.partition("/")[2] for entry in entries]
    if "data.pkl" not in names or "constants.pkl" in names or len({*names}) < len(names):
        return None
    records: list[StorageRecord] = []
    for index in range(len(entries) - 1, -1, -1):
        entry, name = entries[index], names[index]
        if name.startswith("data/") and entry.file_size:
            stop = end - _descriptor_bytes(entry)
            start = stop - entry.file_size
            header_stop = entry.header_offset + _LOCAL_HEADER.size
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or start < header_stop:
                return None
            records.append(StorageRecord(name=name, header_start=entry.header_offset, start=start, stop=stop))
        end = entry.header_offset
    records.reverse()
    return records


def _descriptor_bytes(entry: zipfile.ZipInfo) -> int:
    if not entry.flag_bits & _HAS_DESCRIPTOR:
        return 0
    # Source: miniz, mz_zip_writer_add_mem_ex_v2; torch.serialization._load counts in the same way.
    is_large = entry.header_offset >= _LARGEST_32 or entry.file_size >= _LARGEST_32
    return _DESCRIPTOR64_BYTES if is_large else _DESCRIPTOR_BYTES


def gaps_between(records: list[StorageRecord], size_bytes: int) -> list[tuple[int, int]]:
    """The ranges of an object that belong to no storage: headers, padding, the pickle, the directory.

    Returns:
        One range before each record, empty or not, and one after the last.
    """
    starts = [0, *(record.stop for record in records)]
    stops = [*(record.start for record in records), size_bytes]
    return list(zip(starts, stops, strict=True))


def are_where_headers_say(records: list[StorageRecord], gaps: list[Target]) -> bool:
    """Whether each storage begins where the local header before it says.

    Args:
        records: what the directory told.
        gaps: start and memory of the ranges of ``gaps_between``, in their order.
    """
    for record, (gap_start, gap) in zip(records, gaps, strict=False):
        offset = record.header_start - gap_start
        if not 0 <= offset <= len(gap) - _LOCAL_HEADER.size:
            return False
        magic, name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(gap, offset)
        if (
            magic != ARCHIVE_MAGIC
            or record.header_start + _LOCAL_HEADER.size + name_bytes + extra_bytes != record.start
        ):
            return False
    return True
