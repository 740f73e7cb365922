"""The groups in which the ranks of a training agree: made for a fit, and ended with it."""

from __future__ import annotations

import torch.distributed as dist

from torchbucket.lightning.agreement import RanksTogether


def test_groups_end_with_the_fit_and_not_after_their_world() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    groups = dist.distributed_c10d._world.pg_map
    try:
        before = len(groups)
        for _ in range(3):
            together = RanksTogether(None)
            assert together.all_or_none(lambda: 7) == [7]
            assert together.background_group() is not together.group
            assert len(groups) == before + 2
            together.end()
            assert len(groups) == before
        left = RanksTogether(None)
    finally:
        dist.destroy_process_group()
    left.end()
