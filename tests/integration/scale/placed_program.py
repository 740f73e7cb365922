"""One rank that saves or loads a state which is placed as a scenario has it: ``placed_program.py RANK WORLD_SIZE
RENDEZVOUS_FILE FIELDS``, of which the last are JSON: what is done, which rank has what of which shapes, where, and by
which options of the client."""

from __future__ import annotations

import json
import os
import sys
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from bucketbench.clients.dcp.torchbucket import Torchbucket
from bucketbench.clients.protocol import Target


def state_of(placement: str, shapes: dict[str, list[int]], rank: int, world_size: int, value: float) -> dict[str, Any]:
    """What this rank has."""
    if placement == "dealt":
        own = list(shapes.items())[rank::world_size]
        return {name: torch.full(shape, value) for name, shape in own}
    if placement == "replicated":
        return {name: torch.full(shape, value) for name, shape in shapes.items()}
    mesh = init_device_mesh("cpu", (world_size,))
    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        whole = torch.full(shape, value)
        chunks = whole.chunk(world_size)
        rows = chunks[rank].clone() if rank < len(chunks) else whole[:0].clone()
        found[name] = DTensor.from_local(
            rows, mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=whole.stride()
        )
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    fields = json.loads(sys.argv[4])
    dist.init_process_group(
        "gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    storage = Torchbucket(**fields["options"]).storage(Target(**fields["target"]))
    is_save = fields["action"] == "save"
    state = state_of(fields["placement"], fields["shapes"], rank, world_size, 3.0 if is_save else 0.0)
    if is_save:
        dcp.save(state, storage_writer=storage.writer(fields["name"]))
    else:
        dcp.load(state, storage_reader=storage.reader(fields["name"]))
    own = [value.to_local() if isinstance(value, DTensor) else value for value in state.values()]
    print(json.dumps(all(bool((tensor == 3.0).all()) for tensor in own)), flush=True)
    os._exit(0)  # gloo's threads can outlast their group, and abort an interpreter that ends


if __name__ == "__main__":
    main()
