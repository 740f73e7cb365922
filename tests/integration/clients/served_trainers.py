"""A trainer with each configured client's ``CheckpointIO``: what the tests of such clients share.

Runs as a program too, in a process of its own and in a peer's interpreter, with the target, the beginning of the names
of buckets that do not exist and the configurations as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from served_checkpoints import built, raised

from bucketbench.clients.protocol import Target
from bucketbench.scenarios.lightning_checkpointing.measurement import trainer_checkpoints

CONFIGURATIONS = Path(__file__).parents[3] / "conf" / "lightning_checkpointing" / "client"


def state() -> dict[str, torch.Tensor]:
    """A model's: names in layers, a tied weight, and more than a part of every client."""
    generator = torch.Generator().manual_seed(5)
    embedding = torch.randn(3, 1 << 20, generator=generator)  # 12 MiB
    return {
        "embedding.weight": embedding,
        "layers.0.norm.weight": torch.randn(7, generator=generator).to(torch.bfloat16),
        "layers.1.norm.weight": torch.empty(0),
        "scale": torch.tensor(0.5),
        "decoder.weight": embedding,
    }


def differing(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> list[str]:
    if found.keys() != expected.keys():
        return sorted(found.keys() ^ expected.keys())
    same = {
        name: found[name].dtype is value.dtype and torch.equal(found[name], value) for name, value in expected.items()
    }
    return [name for name, is_same in same.items() if not is_same]


def shown(config: dict[str, Any], target: Target, absent: str) -> dict[str, Any]:
    """What a client does with two steps of a training under one key, and where it must raise."""
    client, trained = built(config), state()
    checkpoints: Any = trainer_checkpoints(client, replace(target, prefix=f"{target.prefix}{config['name']}/"))
    save = _durably(checkpoints)
    wrong = []
    for step in range(2):
        trained["scale"].fill_(step)
        save(trained, "last é.ckpt")
        wrong += differing(checkpoints.load("last é.ckpt"), trained)
    checkpoints.remove("last é.ckpt")
    missing = raised(lambda: checkpoints.load("last é.ckpt"))
    checkpoints.close()
    absent_bucket = f"{absent}-{config['name']}"  # one each, since some make it
    elsewhere: Any = trainer_checkpoints(built(config), replace(target, bucket=absent_bucket))
    refused = raised(lambda: _durably(elsewhere)(trained, "lost.ckpt"))
    return {"wrong": wrong, "missing": missing, "refused": refused}


def _durably(checkpoints: Any) -> Any:
    if not hasattr(checkpoints, "save_async"):
        return checkpoints.save
    return lambda state, key: checkpoints.save_async(state, key).result()


def main() -> None:
    target, configs = Target(**json.loads(sys.argv[1])), json.loads(sys.argv[3])
    print(json.dumps({config["name"]: shown(config, target, sys.argv[2]) for config in configs}))


if __name__ == "__main__":
    main()
