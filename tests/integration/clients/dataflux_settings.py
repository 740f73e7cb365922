"""Runs in the interpreter of gcs-torch-dataflux: reads a target by each configuration, and prints what arrived.

The arguments are the target and the configurations as JSON; printed is, by configuration and number of workers, the
SHA-256 of each sample by key.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from typing import Any

from torch.utils.data import DataLoader

from bucketbench.clients.protocol import Target


def delivered(config: dict[str, Any], target: Target, num_workers: int) -> list[tuple[str, str]]:
    module, _, name = config["_target_"].rpartition(".")
    client = getattr(importlib.import_module(module), name)(**config["options"])
    loader = DataLoader(client.dataset(target), batch_size=8, num_workers=num_workers, collate_fn=list)
    return sorted((key, hashlib.sha256(data).hexdigest()) for batch in loader for key, data in batch)


def main() -> None:
    target, configs = Target(**json.loads(sys.argv[1])), json.loads(sys.argv[2])
    found = {config["name"]: [delivered(config, target, workers) for workers in (0, 2)] for config in configs}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
