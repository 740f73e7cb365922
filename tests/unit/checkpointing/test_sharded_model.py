"""What is counted of a model that FSDP2 has shared out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from bucketbench.checkpointing.shapes import PUBLISHED_MODELS
from bucketbench.checkpointing.state import StateSpec
from bucketbench.scenarios.lightning_fsdp.sharded_model import ShardedModel


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_a_tied_tensor_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {"words.weight": (7, 40), "scale": (), "head.weight": "words.weight"}
    monkeypatch.setitem(PUBLISHED_MODELS, "whisper", lambda: shapes)  # type: ignore[arg-type]  # it is a dictionary
    spec = StateSpec(model="whisper", layers=None, tensors=None, size_bytes=None, seed=0)
    model = ShardedModel(spec)
    assert model.own.keys() == shapes.keys()
    assert model.own_bytes == spec.total_bytes == 4 * (7 * 40 + 1)
