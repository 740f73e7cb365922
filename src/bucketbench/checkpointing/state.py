"""The state that is saved: which tensors it has, and how the same description gives the same weights anywhere."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from bucketbench.checkpointing.shapes import PUBLISHED_MODELS, Shape, Shapes, equal_shapes, transformer_shapes
from bucketbench.errors import ConfigurationError
from bucketbench.units import format_bytes, parse_count, parse_size

if TYPE_CHECKING:
    import torch

__all__ = ["MODEL_NAMES", "StateSpec", "make_state", "mark_state", "state_bytes", "time_copy"]

MODEL_NAMES = ("transformer", *PUBLISHED_MODELS, "tensors")
"""The models by name; ``tensors`` are equal ones, of a number and a size."""

_ITEM_BYTES = 4  # float32, as the models are published
_MARKED_BYTES = 64 * 1024  # at least one number in each so many is changed; clients read no smaller ranges


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSpec:
    """A model's state: random weights, float32, on the CPU.

    Args:
        model: one of ``MODEL_NAMES``.
        layers: of the Transformer, None for the other models.
        tensors: how many equal tensors, None for the models.
        size_bytes: of these together, None for the models.
        seed: of the weights.
    """

    model: str
    layers: int | None
    tensors: int | None
    size_bytes: int | None
    seed: int

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The state that the group ``checkpoint`` describes.

        Raises:
            ConfigurationError: a value is missing, does not belong to the model, or cannot be used.
        """
        model, layers, tensors, size = (config[name] for name in ("model", "layers", "tensors", "size"))
        _check_given("layers", layers, model, needed=model == "transformer")
        _check_given("tensors", tensors, model, needed=model == "tensors")
        _check_given("size", size, model, needed=model == "tensors")
        try:
            count = None if tensors is None else parse_count(tensors)
            size_bytes = None if size is None else parse_size(size)
        except ValueError as error:
            raise ConfigurationError(f"the group checkpoint: {error}") from None
        if count is not None and size_bytes is not None and not 1 <= count <= size_bytes // _ITEM_BYTES:
            raise ConfigurationError(
                f"checkpoint.tensors={tensors} cannot be used with checkpoint.size={size}: expected a whole number "
                f"from 1 to {size_bytes // _ITEM_BYTES:,}, so that each tensor has a number of {_ITEM_BYTES} bytes"
            )
        return cls(model=model, layers=layers, tensors=count, size_bytes=size_bytes, seed=config["seed"])

    @property
    def shapes(self) -> Shapes:
        """Shape of each tensor by name, or the name of the one that it is tied to."""
        if self.layers is not None:
            return transformer_shapes(self.layers)
        if self.tensors is not None and self.size_bytes is not None:
            return equal_shapes(self.tensors, self.size_bytes)
        return PUBLISHED_MODELS[self.model]()

    @property
    def total_bytes(self) -> int:
        """Bytes of the tensors together, a tied one counted once."""
        return sum(math.prod(shape) for shape in self.shapes.values() if not isinstance(shape, str)) * _ITEM_BYTES

    @property
    def words(self) -> str:
        """The model in words, with its size."""
        size = format_bytes(self.total_bytes)
        if self.layers is not None:
            return f"the Transformer with {self.layers:,} layers ({size})"
        return f"{self.tensors:,} tensors ({size})" if self.tensors is not None else f"{self.model} ({size})"


def _check_given(key: str, value: Any, model: str, *, needed: bool) -> None:
    if needed and value is None:
        raise ConfigurationError(
            f"checkpoint.{key} must be set for checkpoint.model={model}: add checkpoint.{key}=VALUE"
        )
    if not needed and value is not None:
        raise ConfigurationError(
            f"checkpoint.{key}={value} has no effect on checkpoint.model={model}: leave it out, or choose the model "
            "that has it, checkpoint=transformer or checkpoint=tensors"
        )


def make_state(spec: StateSpec) -> dict[str, torch.Tensor]:
    """The state, like that of ``Module.state_dict``: tied weights are one tensor under two names."""
    import torch

    generator = torch.Generator().manual_seed(spec.seed)
    state: dict[str, torch.Tensor] = {}
    for name, shape in spec.shapes.items():
        state[name] = state[shape] if isinstance(shape, str) else _random(shape, generator)
    return state


def _random(shape: Shape, generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.empty(shape, dtype=torch.float32).uniform_(-1, 1, generator=generator)


def mark_state(state: dict[str, torch.Tensor], mark: float) -> None:
    """Change every tensor a little, all over, so that no range of a checkpoint passes for that of another mark."""
    for tensor in state.values():
        tensor.view(-1)[:: _MARKED_BYTES // _ITEM_BYTES] = mark


def time_copy(state: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Copy every tensor once into memory that was written before; return when that began and ended, in seconds."""
    tensors = list({tensor.data_ptr(): tensor for tensor in state.values()}.values())
    copies = [tensor.clone() for tensor in tensors]
    started_s = time.monotonic()
    for copy, tensor in zip(copies, tensors, strict=True):
        copy.copy_(tensor)
    return started_s, time.monotonic()


def state_bytes(state: dict[str, torch.Tensor]) -> int:
    """Bytes of the tensors' memory, what several share counted once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in state.values()}
    return sum(storages.values())
