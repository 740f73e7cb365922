"""Models and optimizers of FSDP2 and DDP, saved by some ranks, are those that other ranks load, bit for bit."""

from __future__ import annotations

from pathlib import Path

from rank_runs import run_ranks

from buckettestbed.launch import launch_testbed
from torchbucket import StoreConfig
from torchbucket.dcp import verify

PROGRAM = Path(__file__).with_name("model_program.py")


def test_what_two_ranks_save_one_and_three_load(tmp_path: Path) -> None:
    uri = "s3://data/models"
    with launch_testbed(buckets=["data"], opaque_etags=True) as testbed:

        def act(world_size: int, action: str) -> list[dict[str, str]]:
            endpoint = testbed.s3_endpoint
            (found,) = run_ranks(PROGRAM, world_size, ((action, uri),), directory=tmp_path, endpoint=endpoint)
            return found

        saved, same = act(2, "save")
        assert saved == same
        for world_size in (1, 3):
            assert act(world_size, "load") == [saved] * world_size
        for kind in saved:
            config = StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True)
            assert verify(f"{uri}/{kind}", config=config) == []
