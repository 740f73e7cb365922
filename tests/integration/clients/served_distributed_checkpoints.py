"""A state, and every configured client that saves and loads it as a distributed checkpoint, in one process.

Runs in the interpreter of a peer too, with the target and the configurations as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from served_checkpoints import built, differing
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from bucketbench.clients.protocol import Target

CONFIGURATIONS = Path(__file__).parents[3] / "conf" / "dcp" / "client"
NAME = "step-1"


def state(fill: float | None) -> dict[str, Any]:
    """Tensors of several kinds, random or all alike, and plain values."""
    generator = torch.Generator().manual_seed(5)
    tensors = {
        "large": torch.randn(3, 1 << 20, generator=generator),
        "half": torch.randn(1000, generator=generator).to(torch.bfloat16),
        "step": torch.tensor(7),
    }
    found: dict[str, Any] = {
        name: tensor if fill is None else torch.full_like(tensor, fill) for name, tensor in tensors.items()
    }
    return found | {"epoch": 3 if fill is None else 0}


def shown(config: dict[str, Any], target: Target) -> dict[str, Any]:
    """What a client tells and does before a checkpoint is there, while it is, and when it was removed."""
    warnings.filterwarnings("ignore", message="torch.distributed is")
    storage = built(config).storage(replace(target, prefix=f"{target.prefix}{config['name']}/"))
    there = [storage.is_saved(NAME)]
    save(state(None), storage_writer=storage.writer(NAME), no_dist=True)
    there.append(storage.is_saved(NAME))
    found = state(0)
    load(found, storage_reader=storage.reader(NAME), no_dist=True)
    storage.remove(NAME)
    there.append(storage.is_saved(NAME))
    missing = None
    try:
        load(state(0), storage_reader=storage.reader(NAME), no_dist=True)
    except CheckpointException as error:  # which is no Exception
        missing = str(error)
    storage.close()
    return {"wrong": differing(found, state(None)), "there": there, "missing": missing}


def main() -> None:
    target, configs = Target(**json.loads(sys.argv[1])), json.loads(sys.argv[2])
    print(json.dumps({config["name"]: shown(config, target) for config in configs}))


if __name__ == "__main__":
    main()
