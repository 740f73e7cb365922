"""One rank that measures jobs of distributed checkpoints, one after another:
``placed_program.py RANK WORLD_SIZE RENDEZVOUS_FILE DIRECTORY JOBS``. JOBS is JSON: a name, a placement and the fields
of each. What each has found is printed as JSON, by name."""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from bucketbench.checkpointing.distributed import measure_placed
from bucketbench.checkpointing.placement import Placement
from bucketbench.ranks import Ranks
from bucketbench.scenarios.recording import Recorder


def measured(directory: Path, ranks: Ranks, placement: str, fields: dict[str, Any]) -> dict[str, Any]:
    directory.mkdir(parents=True)
    with Recorder(directory, rank=ranks.rank) as recorder:
        found = measure_placed(Placement(placement), fields, recorder, ranks)
    operations = [json.loads(line) for line in (directory / "operations.jsonl").read_text().splitlines()]
    return {
        "failure": found.verification.failure,
        "verification": asdict(found.verification),
        "details": dict(found.details),
        "operations": [one for one in operations if one["phase"] == "measure"],
    }


def main() -> None:
    warnings.simplefilter("ignore")
    rank, world_size, rendezvous, directory, jobs = (*map(int, sys.argv[1:3]), *sys.argv[3:])
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    os.environ["LOCAL_RANK"] = str(rank)  # as torchrun says it
    ranks = Ranks(rank=rank, world_size=world_size)
    found = {
        name: measured(Path(directory) / name / str(rank), ranks, placement, fields)
        for name, placement, fields in json.loads(jobs)
    }
    print(json.dumps(found), flush=True)
    os._exit(0)  # gloo's threads can outlast their group, and abort an interpreter that ends


if __name__ == "__main__":
    main()
