"""What ``torch.save`` has written, in both of its formats: read up to its pickle, and the list of its storages."""

from __future__ import annotations

import io
import zipfile
from typing import Final

from torchbucket.errors import CheckpointError, StoreError
from torchbucket.files.reader import ObjectReader
from torchbucket.inspection.contents import CheckpointContents, StoredTensor
from torchbucket.inspection.torch_pickle import DescribedStorage, DescribedTensor, PickleError, described, walk

__all__ = ["LEGACY_START", "ZIP_START", "read_archive", "read_legacy"]

ZIP_START: Final = b"PK\x03\x04"
LEGACY_START: Final = b"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
"""How a file of the format before the archive begins: a pickle of one number. *Source:* torch,
``torch/serialization.py``, ``MAGIC_NUMBER`` and ``DEFAULT_PROTOCOL``."""

_PICKLE_BYTES_LIMIT: Final = 256 << 20
_HEADER_BYTES_LIMIT: Final = 2 * _PICKLE_BYTES_LIMIT  # with the archive's directory


class _HeaderFile(io.BufferedIOBase):
    """An object of which only so much is read: a damaged one may call all of it a directory, or one line."""

    def __init__(self, reader: ObjectReader) -> None:
        super().__init__()
        self._reader = reader
        self._left_bytes = _HEADER_BYTES_LIMIT

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._left_bytes + 1
        return self._counted(self._reader.read(most if size is None or size < 0 else min(size, most)))

    def readline(self, size: int | None = -1, /) -> bytes:
        most = self._left_bytes + 1
        return self._counted(self._reader.readline(most if size is None or size < 0 else min(size, most)))

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def seekable(self) -> bool:
        return True

    def _counted(self, data: bytes) -> bytes:
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise PickleError(f"what describes its tensors is longer than {_HEADER_BYTES_LIMIT} bytes")
        return data


def read_archive(reader: ObjectReader) -> CheckpointContents:
    """Read the directory and the pickle of an archive, as ``torch.save`` writes since torch 1.6.

    Raises:
        CheckpointError: it is damaged, cut, or another zip file; or a storage is not as long as the pickle says.
        StoreError: a read failed.
    """
    try:
        with zipfile.ZipFile(_HeaderFile(reader)) as archive:
            records = {record.filename: record for record in archive.infolist()}
            name = next((name for name in records if name.count("/") == 1 and name.endswith("/data.pkl")), None)
            if name is None:
                raise _refusal(reader, "it is a zip file without data.pkl, not one that torch.save has written")
            record = records[name]
            if record.compress_type != zipfile.ZIP_STORED or record.file_size > _PICKLE_BYTES_LIMIT:
                raise _refusal(reader, f"its data.pkl is compressed, or of more than {_PICKLE_BYTES_LIMIT} bytes")
            # torch.save may be told to leave the CRC out, and torch.load compares none.
            record.CRC = None  # type: ignore[assignment]
            pickled = archive.read(record)
    except (CheckpointError, StoreError):
        raise
    except Exception as error:  # what zipfile raises of damaged files is of many kinds
        raise _refusal(reader, f"it begins as an archive of torch.save and is damaged or cut: {error}") from error
    prefix = name.removesuffix("data.pkl")
    sizes = {key.removeprefix(f"{prefix}data/"): record.file_size for key, record in records.items()}
    contents, storages = _contents(reader, _described_in(reader, io.BytesIO(pickled)), "torch")
    for storage in storages:
        if sizes.get(storage.key) != storage.size_bytes:
            raise _refusal(
                reader,
                f"a tensor's storage, data/{storage.key[:100]!r}, has {storage.size_bytes} bytes by the pickle and "
                f"{sizes.get(storage.key, 'none')} in the archive: the file is damaged",
            )
    return contents


def read_legacy(reader: ObjectReader) -> CheckpointContents:
    """Read the pickles of a file of the older format, after which its storages follow.

    Raises:
        CheckpointError: it is damaged or cut.
        StoreError: a read failed.
    """
    file = _HeaderFile(reader)
    for _ in range(3):  # The magic number, the protocol's, and what the machine was.
        _described_in(reader, file)
    contents, storages = _contents(reader, _described_in(reader, file), "torch (legacy format)")
    least_bytes = reader.tell() + sum(storage.size_bytes for storage in storages)
    if least_bytes > reader.size_bytes:
        raise _refusal(
            reader, f"its tensors take it to {least_bytes} bytes at least, and it has {reader.size_bytes}: it was cut"
        )
    return contents


def _described_in(reader: ObjectReader, file: io.BufferedIOBase | io.BytesIO) -> object:
    """One pickle of the file; a ``CheckpointError`` that names it where it is damaged."""
    try:
        return described(file)  # type: ignore[arg-type]
    except PickleError as error:
        raise _refusal(reader, f"its pickle is damaged, or not one that torch.save has written: {error}") from error


def _contents(reader: ObjectReader, value: object, form: str) -> tuple[CheckpointContents, list[DescribedStorage]]:
    tensors: list[StoredTensor] = []
    storages: dict[str, DescribedStorage] = {}
    others = 0
    try:
        for name, found in walk(value):
            if isinstance(found, DescribedStorage):
                found = DescribedTensor(found.dtype, (_length(found),), found)
            if not isinstance(found, DescribedTensor):
                others += 1
                continue
            if found.storage is not None:
                storages[found.storage.key] = found.storage
            tensors.append(
                StoredTensor(
                    name=name, dtype=found.dtype, shape=found.shape, size_bytes=found.size_bytes, file=reader.uri
                )
            )
    except PickleError as error:
        raise _refusal(reader, str(error)) from error
    contents = CheckpointContents(
        uri=reader.uri,
        format=form,
        files={reader.uri: reader.size_bytes},
        tensors=tensors,
        tensors_bytes=sum(storage.size_bytes for storage in storages.values()),
        other_values=others,
    )
    return contents, list(storages.values())


def _length(storage: DescribedStorage) -> int:
    one = DescribedTensor(storage.dtype, (8,), storage).size_bytes
    return storage.size_bytes * 8 // one


def _refusal(reader: ObjectReader, reason: str) -> CheckpointError:
    return CheckpointError(f"{reader.uri}: {reason}", uri=reader.uri)
