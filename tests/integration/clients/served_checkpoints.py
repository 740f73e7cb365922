"""A small state, and every configured client that saves and loads it: what the tests of such clients share.

Runs in the interpreter of a peer too, with the target, a bucket that does not exist and the configurations as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bucketbench.clients.protocol import Target

CONFIGURATIONS = Path(__file__).parents[3] / "conf" / "pytorch_checkpointing" / "client"


def state() -> dict[str, Any]:
    """Tensors of several kinds: of more than a part of every client, empty, of no dimension, two of one storage."""
    generator = torch.Generator().manual_seed(5)
    large = torch.randn(3, 1 << 20, generator=generator)  # 12 MiB
    return {
        "large": large,
        "row": large[1],
        "half": torch.randn(1000, generator=generator).to(torch.bfloat16),
        "empty": torch.empty(0, 3),
        "step": torch.tensor(7),
        "nested": {"epoch": 3, "name": "größe", "rates": [0.1, 0.01]},
    }


def differing(found: Any, expected: Any) -> list[str]:
    """Names of what is not as it was saved."""
    if found.keys() != expected.keys():
        return sorted(found.keys() ^ expected.keys())
    return [name for name, value in expected.items() if not _equal(found[name], value)]


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        return found.dtype is expected.dtype and torch.equal(found, expected)
    return bool(found == expected)


def built(config: dict[str, Any]) -> Any:
    module, _, name = config["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**config["options"])


def raised(call: Callable[[], Any]) -> str | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # every library has its own
        return type(error).__name__
    return None


def shown(config: dict[str, Any], target: Target, absent_bucket: str) -> dict[str, Any]:
    """What a client does with the state, twice under one key, and where it must raise."""
    client, expected = built(config), state()
    checkpoints = client.checkpoints(replace(target, prefix=f"{target.prefix}{config['name']}/"))
    checkpoints.save({"step": torch.tensor(0)}, "a b/é.pt")
    checkpoints.save(expected, "a b/é.pt")
    wrong = differing(checkpoints.load("a b/é.pt"), expected)
    checkpoints.remove("a b/é.pt")
    missing = raised(lambda: checkpoints.load("a b/é.pt"))
    checkpoints.close()
    elsewhere = client.checkpoints(replace(target, bucket=absent_bucket))
    refused = raised(lambda: elsewhere.save(expected, "lost.pt"))
    elsewhere.close()
    return {"wrong": wrong, "missing": missing, "refused": refused}


def main() -> None:
    target, configs = Target(**json.loads(sys.argv[1])), json.loads(sys.argv[3])
    print(json.dumps({config["name"]: shown(config, target, sys.argv[2]) for config in configs}))


if __name__ == "__main__":
    main()
