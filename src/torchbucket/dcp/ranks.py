"""Work that several ranks do together: each is told what the others have, and all fail where one does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from torchbucket.errors import CheckpointError, ConfigError

__all__ = ["Ranks"]

T = TypeVar("T")


class Ranks:
    """The ranks of a process group.

    Args:
        group: the group; None means this process alone.

    Raises:
        ConfigError: this process is none of them.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        if group is not None and dist.get_rank(group) < 0:
            raise ConfigError(f"process_group: this is rank {dist.get_rank()}, which is none of the group's")
        self._group = group
        self.rank = 0 if group is None else dist.get_rank(group)
        self.count = 1 if group is None else dist.get_world_size(group)

    def all_do(self, work: Callable[[], T], what: str) -> list[T]:
        """Do a part of the work on each rank; return what each rank's part came to.

        Args:
            work: this rank's part.
            what: what a rank that failed has done, for messages: "rank 3 could not …".

        Raises:
            Exception: what this rank's part raised.
            CheckpointError: another rank's part failed.
        """
        if self._group is None:
            return [work()]
        own, text, error = _tried(work)
        told: list[Any] = [None] * self.count
        dist.all_gather_object(told, text, self._group)
        if error is not None:
            raise error
        return [own if rank == self.rank else _result(rank, what, one) for rank, one in enumerate(told)]

    def first_does(self, work: Callable[[], T], what: str) -> T:
        """Do the work on the first rank; return on all what it came to. See ``all_do``."""
        if self._group is None:
            return work()
        own: Any = None
        text: bytes | str = ""
        error: BaseException | None = None
        if self.rank == 0:
            own, text, error = _tried(work)
        told: list[Any] = [text]
        dist.broadcast_object_list(told, dist.get_global_rank(self._group, 0), self._group)
        if error is not None:
            raise error
        result: T = own if self.rank == 0 else _result(0, what, told[0])
        return result


def _tried(work: Callable[[], Any]) -> tuple[Any, bytes | str, BaseException | None]:
    """What the work came to; what the others are told, its pickle or the text of a failure; and the failure.

    The result is pickled here, since what cannot be is a failure that the others would wait for, as is Ctrl-C.
    """
    try:
        result = work()
        return result, pickle.dumps(result), None
    except BaseException as raised:  # noqa: BLE001  # the others wait to be told
        return None, f"{type(raised).__name__}: {raised}", raised


def _result(rank: int, what: str, told: bytes | str) -> Any:
    if isinstance(told, str):
        raise CheckpointError(f"rank {rank} {what}: {told}")
    return pickle.loads(told)  # noqa: S301  # of this program's own ranks
