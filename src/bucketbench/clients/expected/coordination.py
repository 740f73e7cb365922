"""What a save leaves beside its files, and what it takes to make that: the metadata, the manifest, and their memory.

Both grow with the number of items of all ranks together, and one rank, the coordinator, makes them. Their sizes are
those of real ones, made by PyTorch's planner and our writer; where there are many, for some ranks, of which each item
adds about as many bytes as those of the others.
"""

from __future__ import annotations

import pickle
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from bucketbench.checkpointing.placement import Placement
from bucketbench.clients.expected.placement import Item, PlacedState
from torchbucket.dcp import BucketStorageWriter
from torchbucket.dcp.file_writing import WrittenItem
from torchbucket.dcp.manifest import MANIFEST_NAME, FileRecord
from torchbucket.dcp.metadata_file import METADATA_NAME
from torchbucket.store import open_store

__all__ = [
    "METADATA_BYTES_PER_ITEM",
    "PLANNED_BYTES_PER_ITEM",
    "WRITTEN_BYTES_PER_ITEM",
    "CoordinationSizes",
    "coordination_sizes",
    "global_plan",
    "plans_of",
    "results_of",
]

PLANNED_BYTES_PER_ITEM: Final = 1_470
"""What the coordinator's memory grows by for each item that a rank proposes to save: the rank's plan, and the message
that it came in.

*Source*: measured by tracemalloc with Python 3.11 and torch 2.13; a test measures it again.
"""

WRITTEN_BYTES_PER_ITEM: Final = 2_620
"""What it grows by beside that for each item that is saved: the plan of all, what the ranks tell of what they have
written, the metadata, and the content of both files.

*Source*: as above.
"""

METADATA_BYTES_PER_ITEM: Final = 2_410
"""What a rank's memory grows by for each item of all ranks when it reads the metadata, its file's content included.

*Source*: as above.
"""

_ITEMS_MADE: Final = 2_000  # up to which the files are made as they would be
_SAMPLED_RANKS: Final = 4
_SUM: Final = "AAAAAAAAAAA="  # as long as the CRC-64 of anything
_BUCKET: Final = "memory://bucketbench-expected"


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinationSizes:
    """The sizes of what lies beside a checkpoint's files.

    Args:
        metadata_bytes: of ``.metadata``.
        manifest_bytes: of ``.torchbucket.json``.
        empty_manifest_bytes: of the latter before anything is written.
    """

    metadata_bytes: int
    manifest_bytes: int
    empty_manifest_bytes: int


def coordination_sizes(state: PlacedState, address: str, version: str) -> CoordinationSizes:
    """The sizes for a state.

    Args:
        state: of as many ranks as there are.
        address: of the checkpoint, which the metadata repeats.
        version: one that the service gives to an object, such as an ETag, which the manifest has of each file.
    """
    busy = [ranks.first + number for ranks in state.alike if ranks.files for number in range(ranks.count)]
    if state.item_count <= _ITEMS_MADE or len(busy) <= _SAMPLED_RANKS:
        return _written(state, busy, address, version)
    some = _spread(busy, _SAMPLED_RANKS)
    fewer = some[::2]
    whole, part = (_written(state, ranks, address, version) for ranks in (some, fewer))
    in_whole, in_part = (_items_of(state, ranks) for ranks in (some, fewer))
    rest = (state.item_count - in_whole) / (in_whole - in_part)
    return CoordinationSizes(
        metadata_bytes=round(whole.metadata_bytes + rest * (whole.metadata_bytes - part.metadata_bytes)),
        manifest_bytes=round(whole.manifest_bytes + rest * (whole.manifest_bytes - part.manifest_bytes)),
        empty_manifest_bytes=whole.empty_manifest_bytes,
    )


def _items_of(state: PlacedState, ranks: Sequence[int]) -> int:
    return sum(len(file.items) for rank in ranks for file in state.files_of(rank))


def _spread(ranks: Sequence[int], count: int) -> list[int]:
    return [ranks[number * len(ranks) // count] for number in range(count)]


def _written(state: PlacedState, ranks: Sequence[int], address: str, version: str) -> CoordinationSizes:
    """The sizes of what the writer leaves for these ranks alone."""
    _, metadata = global_plan(plans_of(state, ranks))
    store = open_store(_BUCKET)
    writer = BucketStorageWriter(f"{_BUCKET}/{'x' * max(1, len(address) - len(_BUCKET) - 1)}")
    key = writer.checkpoint_id.removeprefix(f"{_BUCKET}/")
    writer.prepare_global_plan([])
    empty_bytes = store.head(f"{key}/{MANIFEST_NAME}").size_bytes
    writer.finish(metadata, results_of(state, ranks, version))
    sizes = [store.head(f"{key}/{name}").size_bytes for name in (METADATA_NAME, MANIFEST_NAME)]
    for name in (METADATA_NAME, MANIFEST_NAME):
        store.delete(f"{key}/{name}")
    return CoordinationSizes(metadata_bytes=sizes[0], manifest_bytes=sizes[1], empty_manifest_bytes=empty_bytes)


def global_plan(plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
    """What PyTorch's planner makes of the ranks' plans, from which duplicates were removed."""
    planned, metadata = create_default_global_save_plan(plans)
    metadata.planner_data = dict(ChainMap(*(plan.planner_data for plan in plans)))  # as DefaultSavePlanner does
    return planned, metadata


def plans_of(state: PlacedState, ranks: Sequence[int]) -> list[SavePlan]:
    """What ranks tell the coordinator that they would write, each as it arrives: a copy that shares nothing."""
    found = []
    for rank in ranks:
        items = [item for file in state.files_of(rank) for item in file.items]
        named = state.tensors if state.placement is not Placement.DEALT else [item.name for item in items]
        plan = SavePlan(items=list(map(_write_item, items)), planner_data={name: (name,) for name in named})
        found.append(_arrived(plan))
    return found


def results_of(state: PlacedState, ranks: Sequence[int], version: str) -> list[list[WriteResult]]:
    """What ranks tell the coordinator that they have written, likewise."""
    seen: dict[str, int] = {}
    found: list[list[WriteResult]] = []
    for rank in ranks:
        written: list[WriteResult] = []
        for number, file in enumerate(state.files_of(rank)):
            lengths = [item.stored_bytes for item in file.items]
            record = FileRecord(
                size_bytes=sum(lengths),
                crc64nvme=_SUM,
                version=version,
                items=tuple((length, _SUM) for length in lengths),
            )
            name, offset = f"__{rank}_{number}.distcp", 0
            for item, length in zip(file.items, lengths, strict=True):
                hint = seen[item.name] = seen.get(item.name, -1) + 1
                written.append(
                    WrittenItem(
                        index=MetadataIndex(item.name, torch.Size(item.offsets), hint),
                        size_in_bytes=length,
                        storage_data=_StorageInfo(name, offset, length, None),
                        file=record,
                    )
                )
                offset += length
        found.append(_arrived(written))
    return found


def _write_item(item: Item) -> WriteItem:
    offsets, size = torch.Size(item.offsets), torch.Size(item.size)
    return WriteItem(
        index=MetadataIndex(item.name, offsets),
        type=WriteItemType.SHARD if item.is_shard else WriteItemType.TENSOR,
        tensor_data=TensorWriteData(
            chunk=ChunkStorageMetadata(offsets=offsets, sizes=size),
            properties=TensorProperties(dtype=torch.float32),
            size=torch.Size(item.whole),
        ),
    )


def _arrived(told: Any) -> Any:
    """What another process gets of what one has told."""
    return pickle.loads(pickle.dumps(told))  # noqa: S301  # made above
