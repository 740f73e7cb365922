"""Checkpoints that outlive their job: where one leaves its last, and a later one finds it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from bucketbench.checkpointing.course import Action, Course
from bucketbench.checkpointing.job import CheckpointingJob, nested
from bucketbench.checkpointing.settings import CheckpointingSettings

__all__ = ["KeepingJob", "KeepingSettings", "placed_fields", "remove_empty_directories"]

_KEPT: Final = "saves"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepingSettings(CheckpointingSettings):
    """One point of a sweep whose jobs may save alone, or load alone what an earlier one has saved."""

    @property
    def action(self) -> Action:
        """What the job does."""
        return Action(self.config["action"])

    @property
    def save_ranks(self) -> int:
        """How many ranks save."""
        return int(self.config["ranks"])

    @property
    def local_root(self) -> Path:
        """Where clients have their local files: ``path``, or in ``cache_dir``."""
        path = self.config["path"]
        return self.cache_directory if path is None else Path(str(path)).expanduser().absolute()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepingJob(CheckpointingJob):
    """A job that may leave a checkpoint for another.

    Args:
        action: what is done.
        verify: as of a :class:`Course`.
    """

    action: Action
    verify: bool

    @property
    def course(self) -> Course:
        """In which order the job saves and loads."""
        return Course(action=self.action, verify=self.verify)

    @property
    def own_directories(self) -> tuple[str, ...]:
        """The one for local files, unless a later job is to find them."""
        return () if self.action.keeps_checkpoint else (self.local_directory,)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        return cls(**{**nested(fields), "action": Action(fields["action"])})


def placed_fields(fields: Mapping[str, Any], settings: KeepingSettings) -> dict[str, Any]:
    """The fields of a job whose checkpoints are where a later one finds them, where they are to be kept.

    Args:
        fields: those of a :class:`CheckpointingJob`.
        settings: what the job is described by.
    """
    if not settings.action.keeps_checkpoint:
        return {**fields, "local_directory": str(settings.local_root / f"checkpoints-{uuid.uuid4().hex}")}
    kept = _kept(settings)
    return {
        **fields,
        "target": replace(fields["target"], prefix=f"{settings.prefix}{kept}/"),
        "local_directory": str(settings.local_root / kept),
    }


def remove_empty_directories(job: KeepingJob) -> None:
    """Remove what was made for local files where no client has left any, once a job that keeps checkpoints is over."""
    if not job.action.keeps_checkpoint:
        return
    directory = Path(job.local_directory)
    with suppress(OSError):  # a client's files are in it, or another rank was faster
        for own in (directory, *directory.parents[:2]):
            own.rmdir()


def _kept(settings: KeepingSettings) -> str:
    """Where a save-only job leaves its checkpoint, and a load-only job looks for it.

    It is the same for the same scenario, client, state and number of ranks, whatever else is configured.
    """
    state = settings.state
    identity: dict[str, Any] = {"scenario": settings.scenario, "state": asdict(state), "ranks": settings.save_ranks}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    return f"{_KEPT}/{settings.client.name}/{state.model}-{settings.save_ranks}-ranks-{digest}"
