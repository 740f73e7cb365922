"""What an optimizer adds to a checkpoint is what torch's own state dictionaries have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from bucketbench.checkpointing.optimizer import OPTIMIZERS, optimizer_shapes, optimizer_values
from bucketbench.checkpointing.state import StateSpec


@pytest.mark.parametrize(
    ("name", "kind"), [("sgd", torch.optim.SGD), ("adamw", torch.optim.AdamW)], ids=["sgd", "adamw"]
)
def test_states_and_hyperparameters_are_those_of_torch(name: str, kind: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.LayerNorm(5))
    optimizer = kind(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    theirs, _ = flatten_state_dict({"optim": get_optimizer_state_dict(model, optimizer)})
    weights = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    tensors = {key: tuple(value.shape) for key, value in theirs.items() if isinstance(value, torch.Tensor)}
    assert optimizer_shapes(name, weights) == tensors
    (ours,) = optimizer_values(name, weights)["optim.param_groups"]
    published = {
        key.removeprefix("optim.param_groups.0."): value for key, value in theirs.items() if key not in tensors
    }
    assert ours["params"] == published["params"]
    assert set(ours) <= set(published)
    for key in set(ours) - {"params"}:
        assert published[key] == (tuple(ours[key]) if isinstance(ours[key], list) else ours[key]), key


def test_a_tied_weight_has_one_state_and_none_adds_nothing() -> None:
    weights = {"embedding": (4, 2), "head": "embedding"}
    assert set(optimizer_shapes("adamw", weights)) == {
        f"optim.state.embedding.{name}" for name in ("step", "exp_avg", "exp_avg_sq")
    }
    assert (optimizer_shapes("none", weights), optimizer_values("none", weights)) == ({}, {})


def test_adamw_is_three_times_the_weights() -> None:
    def size(optimizer: str) -> int:
        spec = StateSpec(model="tensors", layers=None, tensors=10, size_bytes=4000, seed=0, optimizer=optimizer)
        return spec.total_bytes

    assert [size(name) for name in OPTIMIZERS] == [4000, 4000, 3 * 4000 + 10 * 4]
