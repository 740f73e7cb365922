"""In which order a job saves and loads, and what is between two saves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Action", "Course"]


class Action(StrEnum):
    """What a job does, and which of it is measured."""

    SAVE_AND_LOAD = "save_and_load"  # each checkpoint is saved, and loaded before the next one is
    SAVES_THEN_LOADS = "saves_then_loads"  # all are saved before the first is loaded, as MLPerf Storage does
    SAVE = "save"  # only saves; the last checkpoint stays where a later job finds it
    LOAD = "load"  # only loads, of what an earlier job has saved
    ASYNC_SAVE = "async_save"  # only saves, in the background
    RESHARD = "reshard"  # saved by some ranks, and loaded by another number of them

    @property
    def keeps_checkpoint(self) -> bool:
        """Whether a checkpoint outlives the job, so that the next one finds it."""
        return self in (Action.SAVE, Action.LOAD)


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """The order of a job's saves and loads.

    Args:
        action: what the job does.
        verify: whether what is only saved is loaded as well, unmeasured, and compared.
        steps_per_save: training steps after each save, which changes every tensor in each; they go on while a save in
            the background is under way.
        step_time_s: what one of them takes, in seconds. It is slept, as a host waits for its accelerator.
    """

    action: Action = Action.SAVE_AND_LOAD
    verify: bool = True
    steps_per_save: int = 0
    step_time_s: float = 0.0
