"""A Lightning module that only holds a state, for trainers that save and load and train nothing."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping

import torch
from lightning.pytorch import LightningModule

__all__ = ["StateHolder", "be_quiet"]


class StateHolder(LightningModule):
    """A module with the tensors of a state as its parameters, under the same names, none of them copied."""

    model: torch.nn.Module

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.model = torch.nn.Module()
        parameters: dict[int, torch.nn.Parameter] = {}
        for name, tensor in state.items():
            *path, last = name.split(".")
            module = self.model
            for part in path:
                if part not in module._modules:
                    module.add_module(part, torch.nn.Module())
                module = module.get_submodule(part)
            # A tensor that has two names stays one.
            parameter = parameters.setdefault(id(tensor), torch.nn.Parameter(tensor, requires_grad=False))
            module.register_parameter(last, parameter)


def be_quiet() -> None:
    """Keep Lightning's advice on hardware, data loaders and logging out of a benchmark's log."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning\..*")
