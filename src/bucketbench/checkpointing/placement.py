"""Which rank has what of a state, and how ``torch.distributed.checkpoint`` is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from bucketbench.checkpointing.loop import OwnState
from bucketbench.checkpointing.party import Party
from bucketbench.checkpointing.shapes import Shape, Shapes
from bucketbench.checkpointing.state import Piece, StateSpec, make_state, state_bytes

__all__ = ["Placement", "own_state", "whole_tensors"]


class Placement(StrEnum):
    """Which rank has what of a state."""

    DEALT = "dealt"  # each tensor is one rank's own, under a name that no other has
    REPLICATED = "replicated"  # every rank has all of them, as with DDP
    SHARDED = "sharded"  # every rank has some rows of each, as with FSDP


def own_state(placement: Placement, spec: StateSpec, party: Party, device: torch.device) -> OwnState:
    """A rank's part of a state, in memory of its own on a device; nothing for a rank that is not one of the party."""
    if not party.is_member:
        return OwnState(tensors={}, counted_bytes=0, takes_part=False)
    shapes, pieces = spec.shapes, dict[str, Piece]()
    if placement is Placement.DEALT:
        tensors = make_state(spec, names=list(shapes)[party.rank :: party.size])
    elif placement is Placement.SHARDED:
        tensors = make_state(spec, part_of=lambda tensor: _rows_of(tensor, party))
        pieces = {name: _piece_of(shape, party) for name in tensors if (shape := _shape(shapes, name))}
    else:
        tensors = make_state(spec)
    tensors = _on(device, tensors)
    return OwnState(tensors=tensors, counted_bytes=_counted_bytes(placement, tensors, shapes, party), pieces=pieces)


def _counted_bytes(placement: Placement, tensors: Mapping[str, torch.Tensor], shapes: Shapes, party: Party) -> int:
    """The bytes that are counted as a rank's, those of replicas as the first one's: a scalar has no rows to share.

    A tied tensor counts once, also where another rank has the one that it is tied to.
    """
    first = party.rank == 0
    if placement is Placement.DEALT:
        return state_bytes({name: tensor for name, tensor in tensors.items() if not isinstance(shapes[name], str)})
    if placement is Placement.REPLICATED:
        return state_bytes(tensors) if first else 0
    return state_bytes({name: tensor for name, tensor in tensors.items() if tensor.ndim or first})


def _chunks(rows: int, party: Party) -> tuple[int, int]:
    """The first and the last of a rank's rows, half-open, as ``torch.chunk`` shares them out."""
    each = math.ceil(rows / party.size)
    return min(party.rank * each, rows), min((party.rank + 1) * each, rows)


def _rows_of(tensor: torch.Tensor, party: Party) -> torch.Tensor:
    """A rank's rows; a scalar has none to share, and is every rank's."""
    if not tensor.ndim:
        return tensor
    start, stop = _chunks(len(tensor), party)
    return tensor[start:stop].clone()


def _piece_of(shape: Shape, party: Party) -> Piece:
    start, _ = _chunks(shape[0], party)
    return Piece(start=start * math.prod(shape[1:]), numbers=math.prod(shape))


def _on(device: torch.device, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors on a device; one that has two names is moved once."""
    if device.type == "cpu":
        return tensors
    moved = {id(tensor): tensor.to(device) for tensor in tensors.values()}
    return {name: moved[id(tensor)] for name, tensor in tensors.items()}


def whole_tensors(own: Mapping[str, torch.Tensor], shapes: Shapes, mesh: DeviceMesh | None) -> dict[str, Any]:
    """The state as ``dcp`` takes it: rows with the shape of what they are rows of; all others as they are.

    Args:
        own: a rank's part.
        shapes: of the whole tensors.
        mesh: of the ranks that have rows of them; None where tensors are whole.
    """
    if mesh is None:
        return dict(own)
    whole: dict[str, Any] = {}
    for name, tensor in own.items():
        size = torch.Size(_shape(shapes, name))
        if not size:
            whole[name] = tensor
            continue
        stride = torch.empty(size, device="meta").stride()
        whole[name] = DTensor.from_local(tensor, mesh, [Shard(0)], run_check=False, shape=size, stride=stride)
    return whole


def _shape(shapes: Shapes, name: str) -> Shape:
    shape = shapes[name]
    return _shape(shapes, shape) if isinstance(shape, str) else shape
