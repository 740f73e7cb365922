"""One rank of a trainer with each configured strategy: ``served_strategies.py RANK WORLD_SIZE RENDEZVOUS_FILE TARGET
CONFIGURATIONS``, both as JSON; what is wrong with what it loads is printed as JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from served_checkpoints import built
from torch.distributed.checkpoint.api import CheckpointException

from bucketbench.checkpointing.comparison import StateComparison
from bucketbench.checkpointing.state import StateSpec, mark_state
from bucketbench.clients.protocol import Target
from bucketbench.ranks import Ranks
from bucketbench.scenarios.lightning_fsdp.measurement import open_checkpoints
from bucketbench.scenarios.lightning_fsdp.sharded_model import ShardedModel

SPEC = StateSpec(model="tensors", layers=None, tensors=3, size_bytes=1 << 20, seed=0)


def shown(config: dict[str, Any], target: Target, ranks: Ranks) -> dict[str, Any]:
    """What a client does with two checkpoints and one for a later job, and whether it hears that one is not there."""
    model = ShardedModel(SPEC)
    checkpoints: Any = open_checkpoints(
        built(config), replace(target, prefix=f"{target.prefix}{config['name']}/"), ranks, model
    )
    compared, wrong = StateComparison(), 0
    for step in range(2):
        mark_state(model.own, float(step))
        name = f"step-{step}.pt"
        if hasattr(checkpoints, "save_async"):
            checkpoints.save_async(model.own, name).result()
        else:
            checkpoints.save(model.own, name)
        checkpoints.make_room()
        wrong += compared.compare(model.own, checkpoints.load(name), key=name)
        dist.barrier()
        checkpoints.remove(name)
        dist.barrier()
    found = [checkpoints.is_saved("kept")]
    dist.barrier()
    checkpoints.save_for_loads(model.own, "kept")
    dist.barrier()
    found.append(checkpoints.is_saved("kept"))
    checkpoints.make_room()
    wrong += compared.compare(model.own, checkpoints.load("kept"), key="kept")
    dist.barrier()
    checkpoints.remove("kept")
    dist.barrier()
    found.append(checkpoints.is_saved("kept"))
    checkpoints.make_room()
    try:
        checkpoints.load("step-1.pt")
        missing = None
    except (Exception, CheckpointException) as error:  # noqa: BLE001  # every library has its own
        missing = type(error).__name__
    checkpoints.close()
    return {
        "wrong": wrong,
        "missing": missing,
        "found": found,
        "tensors": sorted(model.own),
        "bytes": model.own_bytes,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0")
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=world_size)
    target, ranks = Target(**json.loads(sys.argv[4])), Ranks(rank=rank, world_size=world_size)
    found = {config["name"]: shown(config, target, ranks) for config in json.loads(sys.argv[5])}
    print(json.dumps(found), flush=True)
    os._exit(0)  # gloo's threads can outlast their group, and abort an interpreter that ends


if __name__ == "__main__":
    main()
