"""One job that saves and loads checkpoints, as the measured process receives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bucketbench.checkpointing.state import StateSpec
from bucketbench.clients.protocol import Target
from bucketbench.job.description import Job, component

__all__ = ["CheckpointingJob", "nested"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointingJob(Job):
    """A client that saves a state and loads it again, step by step.

    Args:
        state: what is saved.
        steps: number of measured checkpoints, None for as many as ``min_measured_s`` takes together.
        save_only_latest: whether each checkpoint takes the place of the one before, under the same key.
        clear_kernel_cache: whether the kernel's cache of files is dropped before each load.
        multipart: whether the client may send a checkpoint in parts.
        warmup: whether one more checkpoint is saved and loaded first, without being measured.
        local_directory: where a client may have local files; nobody else's, made and removed for this job.
    """

    state: StateSpec
    steps: int | None
    save_only_latest: bool
    clear_kernel_cache: bool
    multipart: bool
    warmup: bool
    local_directory: str

    @property
    def own_directories(self) -> tuple[str, ...]:
        """The one for local files."""
        return (self.local_directory,)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        return cls(**nested(fields))


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job, by way of JSON, with the values that are of classes of their own."""
    return {
        **fields,
        "client": component(fields["client"]),
        "target": Target(**fields["target"]),
        "state": StateSpec(**fields["state"]),
    }
