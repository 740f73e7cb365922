"""The samples of a shard, found in its bytes as they arrive: no input or output happens here."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from typing import Final, NamedTuple, NoReturn

from torchbucket.datasets.tar.header import BLOCK_BYTES, padded, parse_header, parse_records, text_of
from torchbucket.datasets.tar.received import ReceivedBytes
from torchbucket.datasets.tar.sample import Place, TarSample
from torchbucket.errors import ArchiveError
from torchbucket.store.protocol import ObjectData

__all__ = ["ShardScan"]

_ZEROS: Final = bytes(BLOCK_BYTES)
_FILES: Final = (b"0", b"\0", b"7")
_LINKS_AND_DEVICES: Final = (b"1", b"2", b"3", b"4", b"5", b"6", b"V")  # no content follows their header
_DIRECTORY_LISTING: Final = b"D"  # GNU tar's incremental archives; its content is a list of names

# Extended headers hold names, times and attributes. Source of the bound: ours, sixteen times Linux' largest attribute;
# it keeps a damaged length from being taken for a reason to fetch gigabytes.
_EXTENDED_BYTES: Final = 1 << 20

_OWN_FILE: Final = re.compile("__.*__", re.DOTALL)

_TAIL_BYTES: Final = 64 << 10  # looked through at once; archives are padded to 10 KiB, mostly


class _Member(NamedTuple):
    """A member behind all its headers, whose data are at ``[data_start, data_start + size_bytes)``."""

    key: str  # empty for one that belongs to no sample
    extension: str
    name: str
    data_start: int
    size_bytes: int
    stop: int  # where the next header begins


class ShardScan:
    """Finds the samples of a shard one after another, given its bytes in ascending order.

    ``step`` looks for the next sample in the bytes that were added. Where they do not suffice it raises
    ``MissingBytesError``; add those and call it again. Bytes of members that are not wanted are never asked for.

    Args:
        uri: the archive's address.
        place: which samples of it: from one's beginning to another's end, or to the archive's mark of its end.
        size_bytes: the archive's size; None where it arrives with the first bytes.
        extensions: which members are wanted, in lower or upper case; None means all.
    """

    def __init__(self, uri: str, place: Place, *, size_bytes: int | None, extensions: Collection[str] | None) -> None:
        self.version: str | None = place.version
        self._received = ReceivedBytes()
        self._uri = uri
        self._shard = place.shard
        self._stop = place.stop
        self._size_bytes = sys.maxsize if size_bytes is None else size_bytes  # until the first bytes tell
        # As names are compared: without regard to case, and as the user wrote them.
        self._extensions = None if extensions is None else {name.lower(): name for name in extensions}
        self._position = place.start
        self._members: dict[int, _Member | None] = {}  # of the current sample and the one after it, by offset
        self._contents: dict[int, bytes | memoryview] = {}  # of the current sample's members, by the same
        self._last: TarSample | None = None
        self._end: int | None = None  # where the mark of the end is, or the piece's stop, once it was met

    def add(self, data: ObjectData) -> None:
        """Take in a range of the shard."""
        self.version, self._size_bytes = data.info.version, data.info.size_bytes
        self._received.add(data.start, data.data)

    def step(self) -> TarSample | None:
        """The next sample; None at the shard's end.

        Raises:
            MissingBytesError: more bytes are needed.
            ArchiveError: the shard is cut, damaged, or of a kind that is not supported.
        """
        while self._end is None:
            sample, self._end = self._sample()
            if self._end is not None:
                self._last = sample  # not handed out before what follows it has been looked through
            elif sample is not None:
                return sample
        if self._stop is None:
            self._check_tail(self._end)
        last, self._last = self._last, None
        if last is not None:
            last.ends_shard = True
        return last

    def _sample(self) -> tuple[TarSample | None, int | None]:
        """The members from the position on that share a key, None if none of them is wanted; and where the end is."""
        fields: dict[str, bytes | bytearray | memoryview] = {}
        names: set[str] = set()
        start = offset = self._position
        key = ""
        while (member := self._member(offset)) is not None:
            if not member.key and not key:
                # Before a sample: nobody will ask for it again.
                start = self._position = member.stop
                self._members.clear()
                self._received.drop_before(start)
            elif member.key:
                if key and member.key != key:
                    break
                key = member.key
                if member.extension in names:
                    self._refuse(
                        offset,
                        f"has two members in a row that are named {member.name!r}. Names tell the fields of a sample "
                        "apart: write the shard again without one of them",
                    )
                names.add(member.extension)
                field = self._field(member.extension)
                if field in fields:
                    self._refuse(
                        offset,
                        f"has two members in a row for the extension {field!r}, the second one named {member.name!r}: "
                        "leave extensions out, or write the shard again without one of them",
                    )
                if field is not None:
                    fields[field] = self._content(offset, member)
            offset = member.stop
        self._position = offset
        self._members = {offset: member} if member is not None else {}
        self._contents.clear()
        self._received.drop_before(offset)
        place = Place(self._shard, start, offset, self.version)
        sample = TarSample(key, self._uri, fields, place) if fields else None
        return sample, offset if member is None else None

    def _field(self, extension: str) -> str | None:
        """What a member's field is called; None where it is not wanted."""
        return extension if self._extensions is None else self._extensions.get(extension.lower())

    def _content(self, offset: int, member: _Member) -> bytes | memoryview:
        # Kept while the sample's other members arrive, since it may have been joined of many pieces.
        if offset not in self._contents:
            self._contents[offset] = self._received.take(member.data_start, member.data_start + member.size_bytes)
        return self._contents[offset]

    def _member(self, offset: int) -> _Member | None:
        """The member whose headers begin at ``offset``; None at the end."""
        if offset not in self._members:
            self._members[offset] = self._parsed(offset)
        return self._members[offset]

    def _parsed(self, offset: int) -> _Member | None:
        if offset == self._stop:
            return None
        long_name: str | None = None
        records: dict[bytes, bytes] = {}
        while True:
            block = self._block(offset)
            if block == _ZEROS:
                if long_name is not None or records:
                    self._refuse(offset, "ends after an extended header, without the member that it describes")
                return None
            header = parse_header(block, uri=self._uri, offset=offset)
            data_start = offset + BLOCK_BYTES
            if header.kind not in (b"x", b"X", b"g", b"L", b"K"):
                break
            data = self._extension(header.kind, data_start, header.size_bytes, offset)
            if header.kind == b"L":
                long_name = text_of(data.partition(b"\0")[0])
            elif header.kind in (b"x", b"X"):
                records = parse_records(data, uri=self._uri, offset=offset)
            elif header.kind == b"g":
                self._check_global(parse_records(data, uri=self._uri, offset=offset), offset)
            offset = data_start + padded(header.size_bytes)
        name = long_name if long_name is not None else header.name
        if b"path" in records:
            name = text_of(records[b"path"])
        if header.kind == b"S" or any(key.startswith(b"GNU.sparse.") for key in records):
            self._refuse(offset, f"holds {name!r} as a sparse file: write the shard again without --sparse")
        size_bytes = self._size(records, header.size_bytes, offset)
        kind = header.kind
        if kind == b"\0" and name.endswith("/"):
            kind = b"5"  # a directory, before POSIX had a type for it
        if kind in _LINKS_AND_DEVICES:
            return _Member("", "", name, data_start, 0, data_start)
        if kind not in _FILES and kind != _DIRECTORY_LISTING:
            self._refuse(offset, f"holds {name!r}, of the unknown type {kind!r}: write the shard again without it")
        stop = data_start + padded(size_bytes)
        if data_start + size_bytes > self._size_bytes:
            self._cut(offset, f"{name!r} ends at byte {data_start + size_bytes}")
        key, extension = _split(name) if kind in _FILES else ("", "")
        return _Member(key, extension, name, data_start, size_bytes, stop)

    def _block(self, offset: int) -> bytes:
        if offset + BLOCK_BYTES > self._size_bytes:
            self._cut(offset, "where a header or the mark of its end should be is neither")
        return bytes(self._received.take(offset, offset + BLOCK_BYTES))

    def _extension(self, kind: bytes, data_start: int, size_bytes: int, offset: int) -> bytes:
        if data_start + size_bytes > self._size_bytes:
            self._cut(offset, f"an extended header ends at byte {data_start + size_bytes}")
        if kind == b"K":
            return b""  # a link's target
        if size_bytes > _EXTENDED_BYTES:
            self._refuse(
                offset, f"has an extended header of {size_bytes} bytes; at most {_EXTENDED_BYTES} are supported"
            )
        return bytes(self._received.take(data_start, data_start + size_bytes))

    def _size(self, records: dict[bytes, bytes], size_bytes: int, offset: int) -> int:
        stated = records.get(b"size")
        if stated is None:
            return size_bytes
        if not stated.isdigit():
            self._refuse(offset, f"has {stated!r} for a size in an extended header: write it again")
        return int(stated)

    def _check_global(self, records: dict[bytes, bytes], offset: int) -> None:
        wrong = [key for key in records if key in (b"path", b"size") or key.startswith(b"GNU.sparse.")]
        if wrong:
            # It would have to be known wherever reading begins.
            self._refuse(offset, f"has a global extended header with {text_of(wrong[0])!r}, which is not supported")

    def _check_tail(self, end: int) -> None:
        """Read what follows the mark of the end: only zeros may, else somebody's samples would be lost."""
        while self._position < self._size_bytes:
            start, stop = self._position, min(self._position + _TAIL_BYTES, self._size_bytes)
            content = bytes(self._received.take(start, stop)).lstrip(b"\0")
            if content:
                self._refuse(
                    stop - len(content),
                    f"has the mark of an archive's end at byte {end}, and content after it: archives were put one "
                    "after another, or it is damaged. Write it as one archive",
                )
            self._position = stop
            self._received.drop_before(stop)

    def _cut(self, offset: int, what: str) -> NoReturn:
        self._refuse(offset, f"is cut: it has {self._size_bytes} bytes, and {what}. Upload it again")

    def _refuse(self, offset: int, what: str) -> NoReturn:
        raise ArchiveError(f"{self._uri} {what} (at byte {offset})", uri=self._uri, offset=offset)


def _split(name: str) -> tuple[str, str]:
    """The key and the extension of a member's name; both empty where it has not both, and for WebDataset's own files.

    *Sources:* WebDataset, "The WebDataset Format": the key is the path up to the first dot of the base name. WebDataset
    1.0, ``tariterators.py``: left out are ``__…__`` at the top of an archive, and what is below such a directory.
    """
    directory, slash, base = name.rpartition("/")
    top = name.partition("/")[0]
    stem, dot, extension = base.partition(".")
    if not stem or not dot or _OWN_FILE.fullmatch(top):
        return "", ""
    return directory + slash + stem, extension
