"""The state of a sharded model and its optimizers: what a load fills, and how it is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FullyShardedDataParallel, OptimStateKeyType

__all__ = ["optimizer_name", "state_to_fill", "take_sharded", "take_whole"]


def optimizer_name(number: int) -> str:
    """What an optimizer is called in a sharded checkpoint. *Source:* Lightning's own strategies."""
    return f"optimizer_{number}"


def state_to_fill(model: nn.Module, model_name: str, optimizers: Sequence[Any]) -> dict[str, Any]:
    """This rank's part of all, with the names that it has in a sharded checkpoint."""
    state: dict[str, Any] = {model_name: get_model_state_dict(model)}
    for number, optimizer in enumerate(optimizers):
        state[optimizer_name(number)] = get_optimizer_state_dict(model, optimizer)
    return state


def take_sharded(
    model: nn.Module, model_name: str, optimizers: Sequence[Any], state: Mapping[str, Any], *, strict: bool
) -> None:
    """Have model and optimizers go on from what was loaded into ``state_to_fill``."""
    options = StateDictOptions(strict=strict)
    set_model_state_dict(model, state[model_name], options=options)
    for number, optimizer in enumerate(optimizers):
        set_optimizer_state_dict(model, optimizer, state[optimizer_name(number)], options=options)


def take_whole(
    model: nn.Module,
    optimizers: Sequence[Any],
    of_model: dict[str, Any],
    of_optimizers: Sequence[dict[str, Any]] | None,
    *,
    strict: bool,
    from_first: bool,
) -> None:
    """Have model and optimizers go on from the state of all of them.

    Args:
        model: sharded.
        optimizers: of the training.
        of_model: the model's state.
        of_optimizers: the optimizers'; None where this rank has none of them.
        strict: whether the names must be the model's.
        from_first: whether the first rank alone has the states, and gives each its part.
    """
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=from_first, strict=strict)
    set_model_state_dict(model, of_model, options=options)
    for number, optimizer in enumerate(optimizers):
        of_optimizer = {} if of_optimizers is None else _by_names(of_optimizers[number], model)
        set_optimizer_state_dict(model, optimizer, of_optimizer, options=options)


def _by_names(of_optimizer: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """An optimizer's state by the parameters' names; a plain one numbers them, and so does Lightning's whole one."""
    if all(isinstance(key, str) for key in of_optimizer["state"]):
        return of_optimizer
    named: dict[str, Any] = FullyShardedDataParallel.rekey_optim_state_dict(
        of_optimizer, OptimStateKeyType.PARAM_NAME, model
    )
    return named
