"""What an optimizer adds to a checkpoint: the states of torch's ``get_optimizer_state_dict``, beside the weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bucketbench.checkpointing.shapes import Shape, Shapes

__all__ = ["OPTIMIZERS", "optimizer_shapes", "optimizer_values"]

_STATES: Final[Mapping[str, Callable[[Shape], Mapping[str, Shape]]]] = {
    "none": lambda _: {},
    "sgd": lambda _: {},  # without momentum it keeps nothing
    "adamw": lambda shape: {"step": (), "exp_avg": shape, "exp_avg_sq": shape},
}
_HYPERPARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sgd": {"lr": 0.001, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False},
    "adamw": {"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-08, "weight_decay": 0.01, "amsgrad": False},
}

OPTIMIZERS: Final = tuple(_STATES)
"""The optimizers by name; ``none`` is a checkpoint of the weights alone."""


def optimizer_shapes(optimizer: str, weights: Shapes) -> Shapes:
    """Shapes of an optimizer's tensors by name; a weight that is tied to another has no states of its own.

    *Source*: torch, ``torch.optim`` and ``distributed.checkpoint.state_dict.get_optimizer_state_dict``: ``state`` by
    the names of the parameters, of each ``step``, a scalar, and what has the parameter's shape. A test compares.
    """
    states = _STATES[optimizer]
    return {
        f"optim.state.{name}.{state}": state_shape
        for name, shape in weights.items()
        if not isinstance(shape, str)
        for state, state_shape in states(shape).items()
    }


def optimizer_values(optimizer: str, weights: Shapes) -> dict[str, Any]:
    """What is no tensor: the hyperparameters, with the names of their parameters; empty without an optimizer."""
    if optimizer not in _HYPERPARAMETERS:
        return {}
    names = [name for name, shape in weights.items() if not isinstance(shape, str)]
    return {"optim.param_groups": [{**_HYPERPARAMETERS[optimizer], "params": names}]}
