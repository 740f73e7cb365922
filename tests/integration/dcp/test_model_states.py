"""Models and optimizers of FSDP2 and DDP, saved by some ranks, are those that other ranks load, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

from forked_programs import start

from buckettestbed.launch import launch_testbed
from torchbucket import StoreConfig
from torchbucket.dcp import verify

PROGRAM = Path(__file__).with_name("model_program.py")
IMPORTS = (
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
    "torch.nn.parallel",
    "torchbucket.dcp.writer",
    "torchbucket.dcp.reader",
)


def test_what_two_ranks_save_one_and_three_load(tmp_path: Path) -> None:
    uri = "s3://data/models"
    with launch_testbed(buckets=["data"], opaque_etags=True) as testbed:

        def act(world_size: int, action: str) -> list[dict[str, str]]:
            rendezvous = tmp_path / f"{action}-{world_size}"
            running = [
                start(PROGRAM, rank, world_size, rendezvous, action, uri, testbed.s3_endpoint, imports=IMPORTS)
                for rank in range(world_size)
            ]
            found = []
            for one in running:
                ended = one.wait()
                assert ended.returncode == 0, ended.stderr
                found.append(json.loads(ended.stdout.splitlines()[-1]))
            return found

        saved, same = act(2, "save")
        assert saved == same
        for world_size in (1, 3):
            assert act(world_size, "load") == [saved] * world_size
        for kind in saved:
            config = StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True)
            assert verify(f"{uri}/{kind}", config=config) == []
