"""What the ranks of a training do together around a checkpoint, where a failure of one must be known to all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch.distributed as dist

from torchbucket.dcp.ranks import Ranks

__all__ = ["RanksTogether"]

T = TypeVar("T")

_FAILED: Final = "has failed, and so no rank goes on"


class RanksTogether:
    """All ranks of the training, by a gloo group of their own: nothing that the training sends mixes with it.

    Every rank makes one at the same time, since the group is made by all.

    Args:
        timeout: how long a rank waits for the others; None for PyTorch's own limit.
    """

    def __init__(self, timeout: timedelta | None) -> None:
        self._world = dist.group.WORLD
        self._timeout = timeout
        self._background: Any = None
        self.group = self._new_group()
        """None where the process is by itself."""
        self._ranks = Ranks(self.group)

    @property
    def is_current(self) -> bool:
        """Whether these are the ranks of now: a program may end ``torch.distributed`` and begin it anew."""
        return dist.group.WORLD is self._world

    def background_group(self) -> Any:
        """Another group of the same ranks, for what goes on beside; they ask for it at the same time."""
        if self._background is None:
            self._background = self._new_group()
        return self._background

    def all_or_none(self, work: Callable[[], T]) -> list[T]:
        """Do some work on each rank, and return what each has found, by its rank; it travels as a pickle.

        Raises:
            CheckpointError: another rank has failed.
            Exception: what this rank's work raises, once the others know.
        """
        return self._ranks.all_do(work, _FAILED)

    def from_first(self, work: Callable[[], T]) -> T:
        """Do some work on rank 0 and return what it has found, on each rank; it travels as a pickle.

        Raises:
            CheckpointError: it has failed, on the other ranks.
            Exception: what it raises, on rank 0.
        """
        return self._ranks.first_does(work, _FAILED)

    def end(self) -> None:
        """End the groups, which nobody uses any more; each has threads and connections of its own."""
        groups, self._background, self.group = (self._background, self.group), None, None
        for group in groups:
            if group is not None and self.is_current:
                dist.destroy_process_group(group)

    def _new_group(self) -> Any:
        return None if self._world is None else dist.new_group(timeout=self._timeout, backend="gloo")
