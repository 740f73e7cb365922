"""A bare libcurl loop under a data set. The ceiling, not a contestant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from bucketbench.clients.addresses import Address, addresses_of, headers_of
from bucketbench.clients.objects import BatchedObjects, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target
from bucketbench.clients.tar_samples import MemberSample, grouped, is_shard
from bucketbench.clients.transfer_loop import Fetch, TransferLoop

__all__ = ["Raw", "RawIterable", "RawSplit", "RawSplitIterable", "RawTar"]


class Raw:
    """The objects of a batch over a bare libcurl loop: no retries, no checks of content.

    Args:
        transfers: how many at once in each worker.
    """

    def __init__(self, *, transfers: int) -> None:
        self._transfers = transfers

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        return _ObjectsAtOnce(target, addresses_of(target), transfers=self._transfers)


class RawIterable:
    """A worker's whole share over a bare libcurl loop that never drains, in whatever order contents arrive.

    Arguments as of :class:`Raw`.
    """

    def __init__(self, *, transfers: int) -> None:
        self._transfers = transfers

    def dataset(self, target: Target) -> IterableDataset[Sample]:
        """An iterable data set over every object of the target, sharded over workers."""
        return _Stream(target, addresses_of(target), transfers=self._transfers)


class RawSplit:
    """The objects of a batch in ranges over a bare libcurl loop: the ceiling of large objects.

    Args:
        transfers: how many ranges at once in each worker.
        part_bytes: length of a range.
    """

    def __init__(self, *, transfers: int, part_bytes: int) -> None:
        self._transfers = transfers
        self._part_bytes = part_bytes

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every object of the target, that reads a batch at once."""
        return _ObjectsInRanges(target, addresses_of(target), transfers=self._transfers, part_bytes=self._part_bytes)


class RawSplitIterable:
    """A worker's whole share in ranges over a bare libcurl loop that never drains, each object when it is whole.

    Arguments as of :class:`RawSplit`.
    """

    def __init__(self, *, transfers: int, part_bytes: int) -> None:
        self._transfers = transfers
        self._part_bytes = part_bytes

    def dataset(self, target: Target) -> IterableDataset[Sample]:
        """An iterable data set over every object of the target, sharded over workers."""
        return _StreamInRanges(target, addresses_of(target), transfers=self._transfers, part_bytes=self._part_bytes)


class RawTar:
    """The samples in tar shards over a bare libcurl loop that never drains: the ceiling of the clients of shards.

    A shard is taken apart when it is whole, by the sizes in its headers alone, and nothing is copied: no checksum, no
    long name, no archive but a plain one is known. Arguments as of :class:`RawSplit`.
    """

    def __init__(self, *, transfers: int, part_bytes: int) -> None:
        self._transfers = transfers
        self._part_bytes = part_bytes

    def dataset(self, target: Target) -> IterableDataset[MemberSample]:
        """The samples in every shard of the target, whole shards dealt out to workers."""
        addresses = {key: address for key, address in addresses_of(target).items() if is_shard(key)}
        shards = _StreamInRanges(target, addresses, transfers=self._transfers, part_bytes=self._part_bytes)
        return _ShardSamples(shards)


def _loop(target: Target, *, transfers: int) -> TransferLoop:
    # Without it Cloud Storage sends a gzipped object decoded, whole whatever range was asked for. Source: Cloud Storage
    # documentation, "Transcoding of gzip-compressed files".
    as_stored = ["Accept-Encoding: gzip"] if target.scheme == "gs" else []
    return TransferLoop(transfers=transfers, ca_bundle=target.ca_bundle, headers=[*headers_of(target), *as_stored])


class _ObjectsAtOnce(BatchedObjects):
    def __init__(self, target: Target, addresses: Mapping[str, Address], *, transfers: int) -> None:
        super().__init__(target.prefix, tuple(addresses))
        self._addresses = addresses
        self._loop = ProcessLocal(partial(_loop, target, transfers=transfers))

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        found = dict(self._loop.get().contents(self._addresses[key].url for key in keys))
        return [found[position] for position in range(len(keys))]


class _ObjectsInRanges(BatchedObjects):
    def __init__(self, target: Target, addresses: Mapping[str, Address], *, transfers: int, part_bytes: int) -> None:
        super().__init__(target.prefix, tuple(addresses))
        self._addresses = addresses
        self._part_bytes = part_bytes
        self._loop = ProcessLocal(partial(_loop, target, transfers=transfers))

    def read_batch(self, keys: Sequence[str]) -> list[bytearray]:
        found = dict(_in_ranges(self._loop.get(), [self._addresses[key] for key in keys], self._part_bytes))
        return [found[position] for position in range(len(keys))]


def _in_ranges(loop: TransferLoop, addresses: Iterable[Address], part_bytes: int) -> Iterator[tuple[int, bytearray]]:
    """Yield the position of each object and its content, in the order in which they are whole."""
    windows: list[_Window] = []
    buffers: dict[int, bytearray] = {}
    missing: dict[int, int] = {}

    def fetches() -> Iterator[Fetch]:
        for position, address in enumerate(addresses):
            buffer = buffers[position] = bytearray(address.size_bytes)
            starts = range(0, len(buffer), part_bytes)
            missing[position] = len(starts)
            for start in starts:
                stop = min(start + part_bytes, len(buffer))
                windows.append(_Window(position, memoryview(buffer)[start:stop]))
                yield Fetch(url=address.url, byte_range=f"{start}-{stop - 1}", write=windows[-1].write)

    for number in loop.run(fetches()):
        position = windows[number].check()
        missing[position] -= 1
        if not missing[position]:
            yield position, buffers.pop(position)
    yield from buffers.items()  # Objects of no bytes have no ranges.


class _Window:
    """Fills a part of an object's buffer from its start.

    Args:
        position: the object's.
        view: the part.
    """

    def __init__(self, position: int, view: memoryview) -> None:
        self._position = position
        self._view = view
        self._filled_bytes = 0

    def write(self, piece: bytes) -> None:
        stop = self._filled_bytes + len(piece)
        self._view[self._filled_bytes : stop] = piece
        self._filled_bytes = stop

    def check(self) -> int:
        """The object's position, where the part is whole; the buffer is let go."""
        if self._filled_bytes != len(self._view):
            raise OSError(f"a range of {len(self._view)} bytes was answered with {self._filled_bytes}")
        self._view.release()
        return self._position


class _Stream(IterableDataset[Sample]):
    def __init__(self, target: Target, addresses: Mapping[str, Address], *, transfers: int) -> None:
        self._prefix = target.prefix
        self._addresses = addresses
        self._loop = ProcessLocal(partial(_loop, target, transfers=transfers))

    def __iter__(self) -> Iterator[Sample]:
        keys = _share(self._addresses)
        for position, content in self._loop.get().contents(self._addresses[key].url for key in keys):
            yield keys[position].removeprefix(self._prefix), content


class _StreamInRanges(IterableDataset[Sample]):
    def __init__(self, target: Target, addresses: Mapping[str, Address], *, transfers: int, part_bytes: int) -> None:
        self._prefix = target.prefix
        self._addresses = addresses
        self._part_bytes = part_bytes
        self._loop = ProcessLocal(partial(_loop, target, transfers=transfers))

    def __iter__(self) -> Iterator[Sample]:
        keys = _share(self._addresses)
        addresses = (self._addresses[key] for key in keys)
        for position, content in _in_ranges(self._loop.get(), addresses, self._part_bytes):
            yield keys[position].removeprefix(self._prefix), content


class _ShardSamples(IterableDataset[MemberSample]):
    def __init__(self, shards: IterableDataset[Sample]) -> None:
        self._shards = shards

    def __iter__(self) -> Iterator[MemberSample]:
        for _, shard in self._shards:
            yield from grouped(_members(memoryview(shard)))


def _members(shard: memoryview) -> Iterator[tuple[str, memoryview]]:
    """The regular members of an archive. *Source:* POSIX.1-2017, pax, "ustar Interchange Format"."""
    start = 0
    while start < len(shard) and shard[start]:  # a header of zeros ends the archive
        name, size_bytes = bytes(shard[start : start + 100]), int(bytes(shard[start + 124 : start + 135]), 8)
        start += 512
        yield name.rstrip(b"\0").decode(), shard[start : start + size_bytes]
        start += -(-size_bytes // 512) * 512


def _share(keys: Iterable[str]) -> list[str]:
    """The keys of this worker."""
    worker = get_worker_info()
    return list(keys)[slice(None) if worker is None else slice(worker.id, None, worker.num_workers)]
