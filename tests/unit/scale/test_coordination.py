"""The sizes of metadata and manifest for many ranks, and the memory that they take, against real ones."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from bucketbench.checkpointing.placement import Placement
from bucketbench.checkpointing.shapes import transformer_shapes
from bucketbench.clients.expected.coordination import (
    METADATA_BYTES_PER_ITEM,
    PLANNED_BYTES_PER_ITEM,
    WRITTEN_BYTES_PER_ITEM,
    coordination_sizes,
    global_plan,
    plans_of,
    results_of,
)
from bucketbench.clients.expected.placement import PlacedState
from torchbucket.dcp.manifest import Manifest
from torchbucket.dcp.metadata_file import metadata_bytes, metadata_from

ADDRESS = "s3://bucket/run-1/step-100"
VERSION = '"0123456789abcdef-64"'


def contents(state: PlacedState, ranks: range) -> tuple[bytes, bytes]:
    """The metadata and the manifest as the coordinator makes them."""
    _, metadata = global_plan(plans_of(state, ranks))
    written = [one for of_rank in results_of(state, ranks, VERSION) for one in of_rank]
    metadata.storage_data = {one.index: one.storage_data for one in written}
    files = {one.storage_data.relative_path: one.file for one in written}
    return metadata_bytes(metadata), Manifest(save_id="0" * 36, files=files).content()


@pytest.mark.parametrize("placement", Placement)
def test_the_sizes_of_many_ranks_follow_from_those_of_some(placement: Placement) -> None:
    state = PlacedState(placement, transformer_shapes(1), 120)
    assert (state.item_count > 2000) == (placement is Placement.SHARDED)  # else the files themselves are made
    found = coordination_sizes(state, ADDRESS, VERSION)
    metadata, manifest = contents(state, range(120))
    assert found.metadata_bytes == pytest.approx(len(metadata), rel=0.02)
    assert found.manifest_bytes == pytest.approx(len(manifest), rel=0.02)
    assert 0 < found.empty_manifest_bytes < 100


def added_bytes(work: Callable[[], Any], *, at_most: bool) -> float:
    """What something adds to the memory, at its end or at most in between; its result is kept until then."""
    gc.collect()
    tracemalloc.start()
    try:
        result = work()
        now, peak = tracemalloc.get_traced_memory()
        del result
        return peak if at_most else now
    finally:
        tracemalloc.stop()


def test_the_memory_of_an_item_is_what_it_was_when_it_was_measured() -> None:
    state = PlacedState(Placement.SHARDED, transformer_shapes(4), 64)
    ranks = range(8)
    plans = plans_of(state, ranks)
    items = sum(len(plan.items) for plan in plans)
    message_bytes = sum(len(pickle.dumps(plan)) for plan in plans)
    planned = added_bytes(lambda: plans_of(state, ranks), at_most=False) + message_bytes
    assert planned / items == pytest.approx(PLANNED_BYTES_PER_ITEM, rel=0.2)

    def commit() -> Any:
        kept = global_plan(plans)
        results = results_of(state, ranks, VERSION)
        kept[1].storage_data = {one.index: one.storage_data for of_rank in results for one in of_rank}
        files = {one.storage_data.relative_path: one.file for of_rank in results for one in of_rank}
        return kept, results, metadata_bytes(kept[1]), Manifest(save_id="", files=files).content()

    results_bytes = sum(len(pickle.dumps(of_rank)) for of_rank in results_of(state, ranks, VERSION))
    written = added_bytes(commit, at_most=True) + results_bytes
    assert written / items == pytest.approx(WRITTEN_BYTES_PER_ITEM, rel=0.2)

    content, _ = contents(state, ranks)
    read = added_bytes(lambda: metadata_from(content, ADDRESS), at_most=True) + len(content)
    assert read / items == pytest.approx(METADATA_BYTES_PER_ITEM, rel=0.2)
