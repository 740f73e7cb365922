"""Loading a checkpoint of PyTorch: every byte in parallel, checked, into the tensors' own memory.

One read fills memory for the whole object, which for storages is that of their tensors. torch unpickles when all
of it is there and right: see ``docs/decisions/0008-loading-in-place.md``.
"""

from __future__ import annotations

import pickle
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from torchbucket.checkpoint.archive_layout import (
    ARCHIVE_MAGIC,
    StorageRecord,
    are_where_headers_say,
    gaps_between,
    storage_records,
)
from torchbucket.checkpoint.location import store_and_key
from torchbucket.checkpoint.placed_archive import (
    MapLocation,
    PlacedArchive,
    can_place_storages,
    new_storage,
    reads_no_data,
    unpickle,
)
from torchbucket.config import KIB, MIB, StoreConfig
from torchbucket.errors import CheckpointError, ConfigError, TorchbucketError
from torchbucket.files.content import check_complete
from torchbucket.files.pieces import PiecewiseContent
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public, public_in
from torchbucket.store.fresh_memory import fresh_memory, populate
from torchbucket.store.protocol import ObjectInfo, Store, Target, address_in
from torchbucket.store.store_future import result_of
from torchbucket.uri import Address

__all__ = ["load", "load_from"]

# The pickle or the directory of some 2,000 storages. Source: 115 and 90 bytes a storage, measured with torch 2.13; at
# 100 MiB/s a connection they take 2.5 ms.
_END_BYTES: Final = 256 * KIB
# A pickle that is searched, before all bytes are fetched, for what ``weights_only`` refuses. Source: that of 100,000
# storages, at 115 bytes each.
_LARGEST_SEARCHED_BYTES: Final = 16 * MIB
# What a pickle names, as its opcode GLOBAL has it, and what it names of plain tensors. Other bytes may look so, too.
_GLOBAL: Final = re.compile(rb"c([\w.]+\n[\w.]+)\n")
_PLAIN: Final = re.compile(rb"collections\nOrderedDict|torch\n\w+Storage|torch\._utils\n_rebuild_(parameter|tensor_v2)")
# What torch reads as a file lies in pieces of this size, each let go of as soon as torch has copied it.
_PIECE_BYTES: Final = 4 * MIB
# Of the older format, which is a series of pickles that begins with a number. Source: pickletools, PROTO and LONG.
_PICKLE_STARTS: Final = (b"\x80", b"L")
# What torch says of an archive, or of the older format, that is not whole.
_DAMAGED: Final = (
    "PytorchStreamReader",
    "negative seek value",
    "Invalid magic number",
    "Invalid protocol version",
    "unexpected EOF",
)
# What torch's unpickler of weights stumbles over where a pickle is damaged.
_STUMBLES: Final = (EOFError, LookupError, AssertionError, UnicodeDecodeError, struct.error)


@public
def load(
    uri: Address,
    *,
    map_location: MapLocation = None,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    config: StoreConfig | None = None,
) -> Any:
    """Load what ``torch.save`` has written, in either of its formats, from an address.

    All bytes are of one version of the object, and where the store keeps a checksum they are held against it before
    anything is returned. The memory taken is the checkpoint's size and a few MiB.

    Args:
        uri: the object's address, such as ``s3://bucket/run-1/step-100.pt``.
        map_location: where tensors go, as ``torch.load`` takes it.
        weights_only: refuse to unpickle anything but tensors and plain values, as ``torch.load`` does; False runs
            whatever code the file names, so only for files that you trust. None is True.
        mmap: only there to be refused, since an object in a bucket is no file that could be mapped.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Returns:
        What was saved.

    Raises:
        ConfigError: a wrong address or setting.
        StoreError: the object could not be read, was overwritten meanwhile, or differs from its checksum.
        CheckpointError: the object is no checkpoint, or a damaged or a cut one.
        pickle.UnpicklingError: ``weights_only`` refuses it, or its pickle is damaged.
        RuntimeError: what torch raises, such as for a device that is not there.
    """
    if mmap:
        raise ConfigError(
            "mmap=True: an object in a bucket cannot be mapped; leave it out (load reads into the tensors' own memory "
            "and makes no copy), or download the file and give it to torch.load"
        )
    store, key = store_and_key(uri, config)
    return load_from(store, key, map_location=map_location, weights_only=weights_only)


@public_in("torchbucket.checkpoint")
def load_from(store: Store, key: str, *, map_location: MapLocation = None, weights_only: bool | None = True) -> Any:
    """Load the checkpoint under a key of a store; see ``load``."""
    return _Loading(store, key, map_location, weights_only is None or bool(weights_only)).run()


class _Loading:
    """One load."""

    def __init__(self, store: Store, key: str, map_location: MapLocation, weights_only: bool) -> None:
        self._store = store
        self._key = key
        self._uri = address_in(store, key)
        self._map_location = map_location
        self._weights_only = weights_only

    def run(self) -> Any:
        with self._explained():
            if reads_no_data(self._map_location):
                return self._load_by_torch(ObjectReader.lazy(self._store, self._key, uri=self._uri))
            info, ends = self._read_ends()
            if ends.read(0, len(ARCHIVE_MAGIC)) != ARCHIVE_MAGIC:
                self._refuse_what_is_no_pickle(ends)
                return self._load_in_pieces(info)
            records = storage_records(self._reader(ends)) if can_place_storages() else None
            if records is None:
                self._refuse_unsafe_globals(ends)
                return self._load_in_pieces(info)
            return self._load_in_place(info, ends, records)

    def _read_ends(self) -> tuple[ObjectInfo, PiecewiseContent]:
        """Fetch the beginning, which tells the size, and the end, where an archive has its directory."""
        head = self._store.read(self._key, start=0, stop=_END_BYTES)
        check_complete(head, self._uri, stop=_END_BYTES)
        info, pieces = head.info, [(0, memoryview(head.data))]
        if not info.size_bytes:
            raise CheckpointError(
                f"{self._uri}: the object is empty, hence no checkpoint: save it again", uri=self._uri
            )
        if info.size_bytes > _END_BYTES:
            start = max(_END_BYTES, info.size_bytes - _END_BYTES)
            tail = self._store.read(self._key, start=start, stop=info.size_bytes, version=info.version)
            check_complete(tail, self._uri, start=start, stop=info.size_bytes)
            pieces.append((start, memoryview(tail.data)))
        return info, PiecewiseContent(self._store, info, pieces)

    def _load_in_place(self, info: ObjectInfo, ends: PiecewiseContent, records: list[StorageRecord]) -> Any:
        gaps = _new_gaps(records, info.size_bytes)
        # What lies before the storages is mostly the pickle. A large one has arrays in it, and is not fetched twice.
        is_small = len(gaps[0][1]) <= _LARGEST_SEARCHED_BYTES
        if is_small:
            self._refuse_unsafe_globals(ends)
        storages, targets = _new_storages(records, gaps)
        future = self._store.submit_read_into(self._key, targets, size_bytes=info.size_bytes, version=info.version)
        try:
            populate(((storage.data_ptr(), len(storage)) for storage in storages.values()), [future])
            result_of(future)
        finally:
            del future  # An error keeps the frames that it passes, which must not keep it in turn.
        if not are_where_headers_say(records, gaps):
            return self._load_by_torch(self._reader(PiecewiseContent(self._store, info, targets)))
        del targets  # so that a storage goes with the tensor that was made of it
        archive = PlacedArchive(self._reader(PiecewiseContent(self._store, info, gaps)), storages, self._uri)
        return unpickle(archive, self._map_location, weights_only=self._weights_only)

    def _load_in_pieces(self, info: ObjectInfo) -> Any:
        """Have torch read the object as a file that is in memory, and goes as it is read."""
        pieces: list[Target] = [
            (start, memoryview(fresh_memory(min(_PIECE_BYTES, info.size_bytes - start))))
            for start in range(0, info.size_bytes, _PIECE_BYTES)
        ]
        result_of(self._store.submit_read_into(self._key, pieces, size_bytes=info.size_bytes, version=info.version))
        content = PiecewiseContent(self._store, info, pieces, frees=True)
        del pieces
        return self._load_by_torch(self._reader(content))

    def _refuse_what_is_no_pickle(self, ends: PiecewiseContent) -> None:
        """Raise before all of it is fetched, where the object is in neither of torch's formats."""
        first = bytes(ends.read(0, 16))
        if not first.startswith(_PICKLE_STARTS) and self._comes_again(ends):
            raise CheckpointError(
                f"{self._uri}: it begins with {first!r}, hence is nothing that torch.save wrote: neither an archive "
                "nor a pickle; give the address of a checkpoint",
                uri=self._uri,
            )

    def _refuse_unsafe_globals(self, ends: PiecewiseContent) -> None:
        """Raise what ``weights_only`` raises for an archive, before all of it is fetched."""
        if not self._weights_only or not any(_may_be_unsafe(memory) for _, memory in ends.pieces):
            return
        if _unsafe_globals(self._reader(ends)) and self._comes_again(ends):
            self._load_by_torch(self._reader(ends))

    def _comes_again(self, ends: PiecewiseContent) -> bool:
        """Whether the store answers once more with the bytes that are in memory."""
        return all(
            self._store.read(self._key, start=start, stop=start + len(memory), version=ends.version).data == memory
            for start, memory in ends.pieces
        )

    def _load_by_torch(self, file: ObjectReader) -> Any:
        location: Any = self._map_location
        return torch.load(file, map_location=location, weights_only=self._weights_only, mmap=False)

    def _reader(self, content: PiecewiseContent) -> ObjectReader:
        return ObjectReader(content, key=self._key, uri=self._uri)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Have every error name the object, and be one of ours where it is the object that is wrong."""
        try:
            yield
        except TorchbucketError:
            raise
        except Exception as error:
            plain = self._weights_only and not callable(self._map_location)
            if (plain and isinstance(error, _STUMBLES)) or any(text in str(error) for text in _DAMAGED):
                raise CheckpointError(
                    f"{self._uri}: torch cannot read it ({type(error).__name__}: {error}): it is no checkpoint of "
                    "torch.save, or was cut or altered before it was stored; load another one",
                    uri=self._uri,
                ) from error
            error.add_note(f"raised while {self._uri} was loaded")
            raise


def _new_gaps(records: list[StorageRecord], size_bytes: int) -> list[Target]:
    """Memory for what lies before, between and after the storages."""
    ranges = gaps_between(records, size_bytes)
    memory = memoryview(bytearray(sum(stop - start for start, stop in ranges)))
    gaps: list[Target] = []
    for start, stop in ranges:
        gaps.append((start, memory[: stop - start]))
        memory = memory[stop - start :]
    return gaps


def _new_storages(records: list[StorageRecord], gaps: list[Target]) -> tuple[dict[str, torch.Tensor], list[Target]]:
    """The storages by their records' names, and all of the object's memory in order."""
    storages: dict[str, torch.Tensor] = {}
    targets: list[Target] = []
    for record, gap in zip(records, gaps, strict=False):
        storages[record.name], memory = new_storage(record.stop - record.start)
        targets += [gap, (record.start, memory)]
    targets.append(gaps[-1])
    return storages, targets


def _may_be_unsafe(memory: memoryview) -> bool:
    """Whether a pickle seems to name what is no plain tensor, which torch takes 30 us a tensor to tell surely."""
    return any(not _PLAIN.fullmatch(found[1]) for found in _GLOBAL.finditer(memory))


def _unsafe_globals(file: ObjectReader) -> set[str]:
    """What ``weights_only`` refuses to load; nothing where that cannot be told, since the load itself tells then."""
    try:
        return set(torch.serialization.get_unsafe_globals_in_checkpoint(file))
    except (RuntimeError, ValueError, EOFError, LookupError, pickle.UnpicklingError) as error:
        if isinstance(error, TorchbucketError):
            raise
        return set()
