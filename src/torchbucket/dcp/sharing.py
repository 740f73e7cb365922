"""Reading once what every rank wants: one rank reads it, and the others get it from there."""

from __future__ import annotations

import heapq
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem

from torchbucket.dcp.files_found import FoundFile
from torchbucket.dcp.item_reading import StoredTensor, can_be_filled, check_shape
from torchbucket.dcp.ranks import Ranks
from torchbucket.errors import CheckpointError, NotFoundError, PermissionDeniedError

__all__ = [
    "Assignment",
    "ItemKey",
    "Kept",
    "broadcast_all",
    "bytes_from_first",
    "check_group",
    "dealt",
    "group_for_sharing",
    "key_of",
]

_beside: WeakKeyDictionary[dist.ProcessGroup, dist.ProcessGroup] = WeakKeyDictionary()

ItemKey: TypeAlias = tuple[Any, ...]
"""What an item asks for, the same on each rank that wants the same bytes."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What the coordinator tells a rank.

    Args:
        files: the files that it reads from, as they were found.
        sums: length and checksum of each item that it reads, by the file and where in it the item begins, as far as
            they are known.
        shared: which rank reads each of the items that all want, in the order in which they are handed on.
    """

    files: Mapping[str, FoundFile]
    sums: Mapping[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    shared: Mapping[ItemKey, int] = field(default_factory=dict)


def key_of(item: ReadItem) -> ItemKey:
    """What an item asks for."""
    return (item.type, item.storage_index, tuple(item.storage_offsets), tuple(item.lengths))


def dealt(plans: Sequence[LoadPlan], place_of: Callable[[ReadItem], _StorageInfo]) -> dict[ItemKey, int]:
    """Choose a rank for each item that every rank wants, so that all read about as many bytes.

    Args:
        plans: of each rank.
        place_of: where an item is stored.
    """
    if len(plans) == 1:
        return {}
    wanted = [{key_of(item) for item in plan.items} for plan in plans]
    common = set.intersection(*wanted)
    items = {key_of(item): place_of(item) for item in plans[0].items if key_of(item) in common}
    read_bytes = [(0, rank) for rank in range(len(plans))]
    chosen: dict[ItemKey, int] = {}
    for key, place in sorted(items.items(), key=lambda entry: entry[1].length, reverse=True):
        if place.transform_descriptors:
            continue
        size_bytes, rank = heapq.heappop(read_bytes)
        chosen[key] = rank
        heapq.heappush(read_bytes, (size_bytes + place.length, rank))
    return chosen


class Kept(LoadPlanner):
    """Takes what a rank reads for all in the stored dtype, in memory of its own where its tensor has another."""

    def __init__(self, uri: str, planner: LoadPlanner, stored_of: Callable[[ReadItem], StoredTensor | None]) -> None:
        self._uri = uri
        self._planner = planner
        self._stored_of = stored_of
        self.tensors: dict[ItemKey, torch.Tensor] = {}
        self.values: dict[ItemKey, bytes] = {}

    def tensor_for(self, item: ReadItem) -> torch.Tensor:
        """What is read into, and handed on."""
        key = key_of(item)
        if key not in self.tensors:
            stored = self._stored_of(item)
            wanted = self._planner.resolve_tensor(item).detach()
            dtype = wanted.dtype if stored is None else stored.dtype
            if can_be_filled(wanted, dtype):
                self.tensors[key] = wanted
            else:
                self.tensors[key] = torch.empty(tuple(item.lengths), dtype=dtype, device="cpu")
        return self.tensors[key]

    def check_shapes(self, items: Iterable[ReadItem]) -> None:
        """Raise where a tensor has not the shape of what is to go into it, before any is handed on."""
        for item in items:
            if item.type != LoadItemType.BYTE_IO:
                check_shape(self._uri, item, self._planner.resolve_tensor(item))

    def give(self, items: Sequence[ReadItem]) -> None:
        """Hand what was read once to the rank's own planner, wherever it goes."""
        for item in items:
            self._give(item)
        self.tensors.pop(key_of(items[0]), None)
        self.values.pop(key_of(items[0]), None)

    def _give(self, item: ReadItem) -> None:
        key = key_of(item)
        if item.type == LoadItemType.BYTE_IO:
            self._planner.load_bytes(item, io.BytesIO(self.values[key]))
            return
        held = self.tensors[key]
        wanted = self._planner.resolve_tensor(item).detach()
        if held.data_ptr() != wanted.data_ptr() or held.dtype != wanted.dtype:
            wanted.copy_(held)
        self._planner.commit_tensor(item, wanted)

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Keep a value."""
        self.values[key_of(read_item)] = value.getvalue()

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        """Where to read a tensor into."""
        return self.tensor_for(read_item)

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        """Leave it: it is handed on first."""

    def set_up_planner(self, *args: Any, **kwargs: Any) -> None:
        """It stands in for one that is set up."""

    def create_local_plan(self) -> LoadPlan:
        """Plans are made by the other."""
        raise NotImplementedError

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Plans are made by the other."""
        raise NotImplementedError

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Plans are made by the other."""
        raise NotImplementedError


def check_group(group: dist.ProcessGroup | None, ranks: int) -> None:
    """Raise where others load together than the group has: they would wait for each other for ever."""
    size = dist.get_world_size(group)
    if size != ranks:
        raise CheckpointError(
            f"read_once: {ranks} ranks load together, and the reader's process_group has {size}: give "
            "BucketStorageReader the process_group that load is given"
        )


def group_for_sharing(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """The ranks that share, as a group that hands on memory of the host; all of them must ask at the same time.

    It is made once and kept: each has threads and connections of its own.
    """
    world: Any = dist.group.WORLD
    own = world if group is None else group
    if "gloo" in str(dist.get_backend_config(own)):
        return own
    made = _beside.get(own)
    if made is None:
        ranks = None if group is None else dist.get_process_group_ranks(group)
        # Ranks that load nothing do not take part.
        made = dist.new_group(ranks, backend="gloo", use_local_synchronization=ranks is not None)
        _beside[own] = made
    return made


def bytes_from_first(
    group: dist.ProcessGroup, read: Callable[[], bytes | bytearray | memoryview], what: str
) -> bytearray:
    """Read something on the first rank and hand it on to all others.

    Args:
        group: the ranks, which hand on memory of the host.
        read: reads it.
        what: what it is that failed, for the others.

    Raises:
        NotFoundError: it is not there; on every rank.
        PermissionDeniedError: it may not be read, or is not there; on every rank.
        Exception: what ``read`` raises else, on the first rank.
        CheckpointError: the same, on the others.
    """
    content: bytes | bytearray | memoryview = b""

    def read_first() -> int | NotFoundError | PermissionDeniedError:
        nonlocal content
        try:
            content = read()
        except (NotFoundError, PermissionDeniedError) as error:
            return error
        return len(content)

    ranks = Ranks(group)
    told = ranks.first_does(read_first, what)
    if not isinstance(told, int):
        raise told
    if ranks.rank:
        content = bytearray(told)
    memory = content if isinstance(content, bytearray) else bytearray(content)
    if memory:
        dist.broadcast(torch.frombuffer(memory, dtype=torch.uint8), dist.get_global_rank(group, 0), group)
    return memory


def broadcast_all(
    group: dist.ProcessGroup,
    shared: Mapping[ItemKey, int],
    items: Mapping[ItemKey, Sequence[ReadItem]],
    kept: Kept,
    length_of: Callable[[ReadItem], int],
) -> None:
    """Hand on what each rank has read for all, and give it to this rank's planner.

    Args:
        group: the ranks.
        shared: which of them has read each item, in the order in which they are handed on.
        items: what this rank wants of each, once or for several places.
        kept: what it has read, and where the rest goes.
        length_of: how many bytes a plain value has.

    Raises:
        Exception: the planner's first, once all is handed on: the others wait for what this rank has.
    """
    own = dist.get_rank(group)
    error: Exception | None = None
    for key, rank in shared.items():
        item = items[key][0]
        source = dist.get_global_rank(group, rank)
        if item.type == LoadItemType.BYTE_IO:
            value = bytearray(kept.values[key]) if rank == own else bytearray(length_of(item))
            if value:
                dist.broadcast(torch.frombuffer(value, dtype=torch.uint8), source, group)
            kept.values[key] = bytes(value)
        else:
            tensor = kept.tensor_for(item)
            if tensor.numel():
                # As bytes, since a group does not know every dtype.
                dist.broadcast(tensor.reshape(-1).view(torch.uint8), source, group)
        try:
            kept.give(items[key])
        except Exception as raised:  # noqa: BLE001  # the others wait for the rest
            error = error or raised
    if error is not None:
        raise error
