"""The state that is saved: which tensors it has, and how the same description gives the same weights anywhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from bucketbench.checkpointing.optimizer import optimizer_shapes, optimizer_values
from bucketbench.checkpointing.shapes import PUBLISHED_MODELS, Shape, Shapes, equal_shapes, transformer_shapes
from bucketbench.errors import ConfigurationError
from bucketbench.units import format_bytes, parse_count, parse_size

if TYPE_CHECKING:
    import torch

__all__ = ["MODEL_NAMES", "Piece", "StateSpec", "make_state", "mark_of", "mark_state", "state_bytes", "time_copy"]

MODEL_NAMES = ("transformer", *PUBLISHED_MODELS, "tensors")
"""The models by name; ``tensors`` are equal ones, of a number and a size."""

_ITEM_BYTES = 4  # float32, as the models are published
_MARKED_BYTES = 64 * 1024  # at least one number in each so many is changed; clients read no smaller ranges
_TENSORS_OF_A_SEED = 1_000_003  # more than any state has, so that no two seeds have a tensor in common
_MARKS = 64  # at least, in a tensor that has so many numbers, so that each of as many ranks has one in its rows


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSpec:
    """A model's state: random weights, float32, on the CPU.

    Args:
        model: one of ``MODEL_NAMES``.
        layers: of the Transformer, None for the other models.
        tensors: how many equal tensors, None for the models.
        size_bytes: of these together, None for the models.
        seed: of the weights.
        optimizer: one of ``OPTIMIZERS``, whose states are saved as well.
    """

    model: str
    layers: int | None
    tensors: int | None
    size_bytes: int | None
    seed: int
    optimizer: str = "none"

    @classmethod
    def from_config(cls, config: dict[str, Any], *, scale: float = 1) -> Self:
        """The state that the group ``checkpoint`` describes.

        Args:
            config: the group.
            scale: what the size of equal tensors is divided by.

        Raises:
            ConfigurationError: a value is missing, does not belong to the model, or cannot be used.
        """
        model, layers, tensors, size = (config[name] for name in ("model", "layers", "tensors", "size"))
        _check_given("layers", layers, model, needed=model == "transformer")
        _check_given("tensors", tensors, model, needed=model == "tensors")
        _check_given("size", size, model, needed=model == "tensors")
        try:
            count = None if tensors is None else parse_count(tensors)
            size_bytes = None if size is None else round(parse_size(size) / scale)
        except ValueError as error:
            raise ConfigurationError(f"the group checkpoint: {error}") from None
        if count is not None and size_bytes is not None and not 1 <= count <= size_bytes // _ITEM_BYTES:
            raise ConfigurationError(
                f"checkpoint.tensors={tensors} cannot be used with checkpoint.size={size}: expected a whole number "
                f"from 1 to {size_bytes // _ITEM_BYTES:,}, so that each tensor has a number of {_ITEM_BYTES} bytes"
            )
        return cls(
            model=model,
            layers=layers,
            tensors=count,
            size_bytes=size_bytes,
            seed=config["seed"],
            optimizer=config.get("optimizer", "none"),
        )

    @property
    def shapes(self) -> Shapes:
        """Shape of each tensor by name, or the name of the one that it is tied to."""
        weights = self._weights
        return {**weights, **optimizer_shapes(self.optimizer, weights)}

    @property
    def values(self) -> dict[str, Any]:
        """What is saved beside tensors, by name."""
        return optimizer_values(self.optimizer, self._weights)

    @property
    def _weights(self) -> Shapes:
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
        name = self.model
        if self.layers is not None:
            name = f"the Transformer with {self.layers:,} layers"
        elif self.tensors is not None:
            name = f"{self.tensors:,} tensors"
        with_states = "" if self.optimizer == "none" else f" and {self.optimizer}"
        return f"{name}{with_states} ({format_bytes(self.total_bytes)})"


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


def make_state(
    spec: StateSpec,
    *,
    names: Collection[str] | None = None,
    part_of: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """The state, like that of ``Module.state_dict``: tied weights are one tensor under two names.

    A rank makes no more than it has: one whole tensor at a time, of which it keeps its part.

    Args:
        spec: of the whole state.
        names: of the tensors that are wanted; None for all.
        part_of: gives what is kept of a tensor, in memory of its own; None where that is all.
    """
    shapes = spec.shapes
    places = {name: place for place, name in enumerate(shapes)}
    made: dict[str, torch.Tensor] = {}
    state: dict[str, torch.Tensor] = {}
    for name in shapes if names is None else names:
        source, shape = name, shapes[name]
        while isinstance(shape, str):
            source, shape = shape, shapes[shape]
        if source not in made:
            tensor = _random(shape, seed=(spec.seed * _TENSORS_OF_A_SEED + places[source]) % (1 << 63))
            made[source] = tensor if part_of is None else part_of(tensor)
        state[name] = made[source]
    return state


def _random(shape: Shape, *, seed: int) -> torch.Tensor:
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.empty(shape, dtype=torch.float32).uniform_(-1, 1, generator=generator)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Where a rank's part of a tensor lies in all of it, its numbers counted row by row.

    Args:
        start: number of its first one.
        numbers: how many the whole tensor has.
    """

    start: int
    numbers: int


def mark_state(state: Mapping[str, torch.Tensor], mark: float, pieces: Mapping[str, Piece] | None = None) -> None:
    """Change every tensor a little, all over, so that no range of a checkpoint passes for that of another mark.

    Args:
        state: tensors by name, or a rank's parts of them.
        mark: what is written.
        pieces: of those that are parts, where they lie: the marks of all parts are those of the whole.
    """
    for name, tensor in state.items():
        first, pitch = _marked(tensor, None if pieces is None else pieces.get(name))
        tensor.view(-1)[first::pitch] = mark


def mark_of(state: Mapping[str, torch.Tensor], pieces: Mapping[str, Piece]) -> float | None:
    """The mark of the first tensor that has one; None where none has, as of a rank that has no rows."""
    for name, tensor in state.items():
        first, _ = _marked(tensor, pieces.get(name))
        if first < tensor.numel():
            return float(tensor.view(-1)[first])
    return None


def _marked(tensor: torch.Tensor, piece: Piece | None) -> tuple[int, int]:
    """The first number of a tensor that is marked, and how many further each next one is."""
    start, numbers = (0, tensor.numel()) if piece is None else (piece.start, piece.numbers)
    pitch = min(_MARKED_BYTES // _ITEM_BYTES, max(1, numbers // _MARKS))
    return -start % pitch, pitch


def time_copy(state: Mapping[str, torch.Tensor], *, ready: Callable[[], object]) -> tuple[float, float]:
    """Copy every tensor into host memory that was written before; return when that began and ended, in seconds.

    It is done twice, by all of torch's threads and by one, and the shorter time is told: where other processes keep the
    processors busy, threads that share a copy wait for one another at each tensor, for much longer than it takes. What
    is on a GPU is copied into pinned memory, as is done where a save is staged.

    Args:
        state: the tensors, by name.
        ready: is called when the memory is there, before each copy: to wait for others who copy at the same time.
    """
    import torch

    tensors = list({tensor.data_ptr(): tensor for tensor in state.values()}.values())
    copies = [_host_copy(tensor) for tensor in tensors]
    threads = torch.get_num_threads()
    found: list[tuple[float, float]] = []
    try:
        for number in (threads, 1):
            torch.set_num_threads(number)
            ready()
            started_s = time.monotonic()
            for copy, tensor in zip(copies, tensors, strict=True):
                copy.copy_(tensor)
            found.append((started_s, time.monotonic()))
    finally:
        torch.set_num_threads(threads)
    return min(found, key=lambda span: span[1] - span[0])


def _host_copy(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    if tensor.is_cuda:
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
    return tensor.clone()


def state_bytes(state: Mapping[str, torch.Tensor]) -> int:
    """Bytes of the tensors' memory, what several share counted once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in state.values()}
    return sum(storages.values())
