"""What several ranks do with the safetensors layout, in one process: each rank's plan is made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import LoadPlan, SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from torchbucket.dcp import BucketHuggingFaceReader, BucketHuggingFaceWriter

__all__ = ["State", "load_part", "planned", "save_parts"]

State = Mapping[str, Sequence[tuple[tuple[int, ...], torch.Tensor]]]
"""What a rank has of each tensor: where each part begins, and the part."""


def planned(state: State, shapes: Mapping[str, Sequence[int]]) -> tuple[SavePlan, Any]:
    """A rank's plan, and what stands in for its planner."""
    items, content = [], {}
    for name, parts in state.items():
        for offsets, tensor in parts:
            index = MetadataIndex(name, torch.Size(offsets))
            data = TensorWriteData(
                chunk=ChunkStorageMetadata(torch.Size(offsets), tensor.shape),
                properties=TensorProperties(dtype=tensor.dtype),
                size=torch.Size(shapes[name]),
            )
            items.append(WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data))
            content[index] = tensor
    return SavePlan(items), SimpleNamespace(resolve_data=lambda item: content[item.index])


def save_parts(
    uri: str, ranks: Sequence[State], shapes: Mapping[str, Sequence[int]], mapping: Any = None, **options: Any
) -> BucketHuggingFaceWriter:
    """Save as `torch.distributed.checkpoint.save` has ranks do it; returns the coordinator's writer."""
    writer = BucketHuggingFaceWriter(uri, mapping, **{"save_distributed": True, **options})
    writer.set_up_storage_writer(True)
    plans, planners = zip(*(planned(state, shapes) for state in ranks), strict=True)
    for plan in plans:
        writer.prepare_local_plan(plan)
    plans = writer.prepare_global_plan(list(plans))
    results = [writer.write_data(plan, planner).value() for plan, planner in zip(plans, planners, strict=True)]
    writer.finish(Metadata({}), results)
    return writer


def load_part(
    uri: str,
    name: str,
    offsets: Sequence[int],
    into: torch.Tensor,
    *,
    reader: BucketHuggingFaceReader | None = None,
) -> None:
    """Load a part of a tensor, of the shape of what it goes into."""
    reader = BucketHuggingFaceReader(uri) if reader is None else reader
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, True)
    wanted = ChunkStorageMetadata(torch.Size(offsets), into.shape)
    entry: Any = metadata.state_dict_metadata[name]
    plan = LoadPlan(create_read_items_for_chunk_list(name, entry, [wanted]))

    def resolve(item: Any) -> torch.Tensor:
        found = into
        for dimension, (start, length) in enumerate(zip(item.dest_offsets, item.lengths, strict=True)):
            found = found.narrow(dimension, start, length)
        return found

    planner: Any = SimpleNamespace(resolve_tensor=resolve, commit_tensor=lambda *_: None)
    reader.read_data(reader.prepare_global_plan([reader.prepare_local_plan(plan)])[0], planner).value()
