"""One rank that saves and loads in the safetensors layout; its arguments are those of ``rank_program.py``."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from rank_program import SEED, Rank, main
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import torchbucket.dcp.huggingface.consolidation
import torchbucket.dcp.huggingface.making
import torchbucket.dcp.huggingface.writer
from torchbucket.dcp import BucketHuggingFaceReader, BucketHuggingFaceWriter, consolidate


class SafetensorsRank(Rank):
    """What one rank does."""

    def state(self, seed: float) -> dict[str, Any]:
        state = super().state(seed)
        del state["epoch"]
        state["count"] = torch.tensor([3]) + int(seed)
        state["mask"] = distribute_tensor(torch.arange(9) % 2 == int(seed < 0), self.mesh, [Shard(0)])
        state["none"] = distribute_tensor(torch.empty(0, 4), self.mesh, [Replicate()])
        state["large"] = distribute_tensor(torch.arange(5.5 * (1 << 20)) + seed, self.mesh, [Shard(0)])
        return state

    def _mapping(self) -> dict[str, int]:
        return {name: 1 + (name == "large") for name in self.state(SEED)}

    def save(self, **options: Any) -> None:
        writer = BucketHuggingFaceWriter(
            self.uri, self._mapping(), config=self.config, save_distributed=True, **options
        )
        dcp.save(self.state(SEED), storage_writer=writer)

    def save_consolidated(self) -> None:
        self.save(enable_consolidation=True)

    def load(self, **options: Any) -> list[str]:
        return self._load(BucketHuggingFaceReader(self.uri, config=self.config, **options))

    def consolidate(self) -> None:
        """Make whole tensors of what is beside: ``…/sharded`` into ``…/whole``."""
        target = self.uri.rpartition("/")[0] + "/whole"
        torchbucket.dcp.huggingface.making._COPY_BYTES = 5 << 20  # type: ignore[misc]  # of little tensors, too
        consolidate(target, self.uri, process_group=dist.group.WORLD, config=self.config)

    def consolidate_while_one_fails(self, failing: int) -> None:
        if dist.get_rank() == failing:
            torchbucket.dcp.huggingface.consolidation.make_file = _no_room  # type: ignore[assignment]
        self.consolidate()

    def save_while_one_fails(self, failing: int) -> None:
        if dist.get_rank() == failing:
            torchbucket.dcp.huggingface.writer.write_tensors = _no_room  # type: ignore[assignment]
        self.save_consolidated()


def _no_room(*_: Any, **__: Any) -> Any:
    raise OSError("no room")


if __name__ == "__main__":
    main(SafetensorsRank)
