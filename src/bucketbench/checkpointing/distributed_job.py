"""One job of distributed checkpoints, as each measured rank receives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bucketbench.checkpointing.course import Course
from bucketbench.checkpointing.keeping import KeepingJob

__all__ = ["DistributedCheckpointingJob"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributedCheckpointingJob(KeepingJob):
    """A client that saves and loads a state that ranks share.

    Args:
        save_ranks: how many ranks save: the first ones.
        load_ranks: how many load.
        backend: of the ranks' process group; ``nccl`` has the state on GPUs.
        async_checkpointer: by what ``action=async_save`` saves, where the client does not say it itself.
        reuse_stager: whether that copies the state into the same memory each time.
        steps_per_save: as of a :class:`Course`.
        step_time_s: likewise.
    """

    save_ranks: int
    load_ranks: int
    backend: str
    async_checkpointer: Literal["thread", "process"]
    reuse_stager: bool
    steps_per_save: int
    step_time_s: float

    @property
    def course(self) -> Course:
        """In which order the job saves and loads."""
        return Course(
            action=self.action,
            verify=self.verify,
            steps_per_save=self.steps_per_save,
            step_time_s=self.step_time_s,
        )
