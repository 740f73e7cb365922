"""A bare libcurl loop under a data set. The ceiling, not a contestant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from bucketbench.clients.addresses import Address, addresses_of, headers_of
from bucketbench.clients.objects import BatchedObjects, Sample
from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target
from bucketbench.clients.transfer_loop import Fetch, TransferLoop

__all__ = ["Raw", "RawIterable", "RawSplit"]


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


def _loop(target: Target, *, transfers: int) -> TransferLoop:
    return TransferLoop(transfers=transfers, ca_bundle=target.ca_bundle, headers=headers_of(target))


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
        buffers = [bytearray(self._addresses[key].size_bytes) for key in keys]
        windows: list[_Window] = []
        fetches: list[Fetch] = []
        for key, buffer in zip(keys, buffers, strict=True):
            url = self._addresses[key].url
            for start in range(0, len(buffer), self._part_bytes):
                stop = min(start + self._part_bytes, len(buffer))
                window = _Window(memoryview(buffer)[start:stop])
                windows.append(window)
                fetches.append(Fetch(url=url, byte_range=f"{start}-{stop - 1}", write=window.write))
        for position in self._loop.get().run(fetches):
            windows[position].check()
        return buffers


class _Window:
    """Fills a part of a buffer from its start."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._filled_bytes = 0

    def write(self, piece: bytes) -> None:
        stop = self._filled_bytes + len(piece)
        self._view[self._filled_bytes : stop] = piece
        self._filled_bytes = stop

    def check(self) -> None:
        if self._filled_bytes != len(self._view):
            raise OSError(f"a range of {len(self._view)} bytes was answered with {self._filled_bytes}")


class _Stream(IterableDataset[Sample]):
    def __init__(self, target: Target, addresses: Mapping[str, Address], *, transfers: int) -> None:
        self._prefix = target.prefix
        self._addresses = addresses
        self._loop = ProcessLocal(partial(_loop, target, transfers=transfers))

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        share = slice(None) if worker is None else slice(worker.id, None, worker.num_workers)
        keys = list(self._addresses)[share]
        for position, content in self._loop.get().contents(self._addresses[key].url for key in keys):
            yield keys[position].removeprefix(self._prefix), content
