"""Tensors one by one as they arrive, within a budget of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final

import torch

from torchbucket.config import MIB, StoreConfig
from torchbucket.errors import ConfigError, TransportError
from torchbucket.public import public_in
from torchbucket.safetensors.header import TensorPlace
from torchbucket.safetensors.places import PlacedTensors, TensorFile, find_tensors
from torchbucket.safetensors.tensors import empty_tensor, memory_of, torch_dtype, torch_shape
from torchbucket.store import forking
from torchbucket.store.protocol import ObjectInfo, Store
from torchbucket.store.store_future import refuse_to_wait
from torchbucket.uri import Address

__all__ = ["BUDGET_BYTES", "arriving", "stream"]

# Small tensors are fetched together up to so much. Source: ``StoreConfig.part_size_bytes``' default, beyond which one
# request becomes several.
_GROUP_BYTES: Final = 8 * MIB
BUDGET_BYTES: Final = 256 * MIB
"""What a stream asks for at most before it is yielded, where nobody says otherwise."""


@public_in("torchbucket.safetensors")
def stream(
    uri: Address,
    *,
    device: str | int | torch.device = "cpu",
    budget_bytes: int = BUDGET_BYTES,
    config: StoreConfig | None = None,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor of a checkpoint as soon as it is there, in whatever order they arrive.

    A tensor owns its memory: it is yours, stays as it is however far the iteration gets, and is freed when you drop
    it. Headers are read and checked by the call, before the first tensor. Leaving the loop, or dropping the iterator,
    ends the reads that are under way.

    Args:
        uri: the address of a file, of an index or of a directory, as of ``load_file``.
        device: where the tensors are to be, as ``torch.device`` takes it.
        budget_bytes: bound on what was asked for and not yielded yet; one tensor that is larger is read by itself.
        config: the settings; None means the defaults.

    Raises:
        CheckpointError: by the call; see ``load_file``.
        StoreError: by the call or by the iterator, where a read failed.
        ConfigError: a budget that is no positive number.
    """
    if not isinstance(budget_bytes, int) or budget_bytes < 1:
        raise ConfigError(f"budget_bytes must be a whole number of bytes, at least 1; got {budget_bytes!r}")
    target = torch.device(device)
    return arriving(find_tensors(uri, config), target, budget_bytes)


def arriving(
    found: PlacedTensors, device: torch.device, budget_bytes: int = BUDGET_BYTES
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield tensors that were found as they arrive; see ``stream``.

    Raises:
        CheckpointError: by the call: this torch lacks a dtype.
        StoreError: by the iterator, where a read failed.
    """
    for file, place in found.places.values():
        torch_dtype(file.uri, place), torch_shape(file.uri, place)
    groups = _groups(found, min(_GROUP_BYTES, budget_bytes))
    return _arriving(found.store, groups, device, budget_bytes)


@dataclass(slots=True, eq=False)
class _Group:
    """Neighbours in a file that are read together."""

    file: TensorFile
    places: list[TensorPlace]
    size_bytes: int


def _groups(found: PlacedTensors, most_bytes: int) -> deque[_Group]:
    groups: deque[_Group] = deque()
    for file, place in found.places.values():
        last = groups[-1] if groups else None
        if last is None or last.file is not file or last.size_bytes + place.size_bytes > most_bytes:
            last = _Group(file, [], 0)
            groups.append(last)
        last.places.append(place)
        last.size_bytes += place.size_bytes
    return groups


class _Reads:
    """The reads under way, and what they have brought."""

    def __init__(self, store: Store, groups: deque[_Group], budget_bytes: int) -> None:
        self._store = store
        self._groups = groups
        self._budget_bytes = budget_bytes
        self._futures: dict[Future[ObjectInfo], list[tuple[str, torch.Tensor]]] = {}
        self._arrived: SimpleQueue[Future[ObjectInfo]] = SimpleQueue()
        self.held_bytes = 0

    def submit(self) -> None:
        """Begin as many more reads as the budget allows, one where nothing else is held."""
        while self._groups and (
            not self.held_bytes or self.held_bytes + self._groups[0].size_bytes <= self._budget_bytes
        ):
            group = self._groups.popleft()
            uri = group.file.uri
            tensors = [
                (place.name, empty_tensor(torch_shape(uri, place), torch_dtype(uri, place))) for place in group.places
            ]
            self.held_bytes += group.size_bytes
            future = self._store.submit_read_into(
                group.file.key,
                [(place.start, memory_of(tensor)) for place, (_, tensor) in zip(group.places, tensors, strict=True)],
                size_bytes=group.file.info.size_bytes,
                version=group.file.info.version,
            )
            self._futures[future] = tensors
            future.add_done_callback(self._arrived.put)
            del future  # see next_arrived

    def next_arrived(self) -> list[tuple[str, torch.Tensor]] | None:
        """Wait for the read that ends first and return its tensors, the last one first; None where none is left."""
        if not self._futures:
            return None
        if self._arrived.empty():
            refuse_to_wait("stream")
        future = self._arrived.get()
        tensors = self._futures.pop(future)
        try:
            future.result()
        finally:
            del future  # An error keeps the frames that it passes, which must not keep it in turn.
        tensors.reverse()
        return tensors

    def cancel(self) -> None:
        """End what is under way."""
        while self._futures:
            self._futures.popitem()[0].cancel()


def _arriving(
    store: Store, groups: deque[_Group], device: torch.device, budget_bytes: int
) -> Iterator[tuple[str, torch.Tensor]]:
    process = forking.forks_before
    reads = _Reads(store, groups, budget_bytes)
    try:
        reads.submit()
        while (tensors := reads.next_arrived()) is not None:
            while tensors:
                # Not counted from here on: whoever gets it holds it.
                reads.held_bytes -= tensors[-1][1].nbytes
                reads.submit()
                yield _on_device(tensors.pop(), device)
                if forking.forks_before != process:
                    raise TransportError(
                        "this stream was begun before the process forked, and only the parent gets its answers; begin "
                        "one in the child"
                    )
    finally:
        reads.cancel()


def _on_device(named: tuple[str, torch.Tensor], device: torch.device) -> tuple[str, torch.Tensor]:
    name, tensor = named
    return name, tensor.to(device)
