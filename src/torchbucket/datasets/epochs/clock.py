"""Which epoch a pass over a data set is, known alike to all workers of the pass and to the process they belong to."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from torch.utils.data import get_worker_info

from torchbucket.datasets.epochs.order import check_epoch
from torchbucket.datasets.shared_block import SharedBlock, is_being_sent_to_a_child

__all__ = ["ClockedPass", "EpochClock"]

# Sources: a host has tens of ranks, each with its own loaders; a loader runs one pass at a time, mostly.
_OWNERS: Final = 256
_PASSES: Final = 256

# The columns of an owner, a process that has loaders or reads by itself.
_PID, _EPOCH, _RESUMING, _IN_WORKERS = range(4)
# The columns of a pass that workers share.
_OWNER, _TOKEN, _TURN, _WORKERS, _SERIAL, _PASS_EPOCH, _PASS_RESUMING, _BEGUN, _DONE = range(9)


@dataclass(kw_only=True, slots=True)
class ClockedPass:
    """One reader's part in a pass.

    Args:
        epoch: the epoch that the pass reads.
        resuming: the data set's loaded state applies to it.
        row: where the pass is in the clock's table; None where the reader is alone.
        serial: the pass' own number, which tells whether the row is still its.
        finished: the reader has told the clock that it is through.
    """

    epoch: int
    resuming: bool
    row: int | None = None
    serial: int = 0
    finished: bool = False


class EpochClock:
    """Counts the epochs of one data set object: a pass that is complete begins the next one.

    Every process that has loaders of the data set, or iterates it, has its own count; the workers of its loaders see
    it, in shared memory, whatever started them. All workers of one pass see the same epoch, even where one has read
    its share before another is up. A pass that is left early counts for nothing: the next one is of the same epoch.

    Pickled or copied, but for a child that is being started, it becomes an independent clock that shows the same.
    Safe for threads and forks.

    Args:
        epoch: the first epoch.
        resuming: whether a loaded state applies to it.
    """

    def __init__(self, epoch: int = 0, *, resuming: bool = False) -> None:
        self._block = SharedBlock(8 * (1 + _OWNERS * 4 + _PASSES * 9))
        self._attach()
        self._owners[0] = os.getpid(), epoch, resuming, False

    def _attach(self) -> None:
        numbers: npt.NDArray[np.int64] = np.frombuffer(self._block.memory, np.int64)
        self._begun_in_all = numbers[:1]
        self._owners = numbers[1 : 1 + _OWNERS * 4].reshape(_OWNERS, 4)
        self._passes = numbers[1 + _OWNERS * 4 :].reshape(_PASSES, 9)
        self._turns: dict[int, int] = {}

    @property
    def epoch(self) -> int:
        """The epoch of the next pass."""
        return self._read(_EPOCH)

    @property
    def resuming(self) -> bool:
        """Whether the state that was loaded applies to the next pass."""
        return bool(self._read(_RESUMING))

    @property
    def in_workers(self) -> bool:
        """Whether workers of this process began a pass since its epoch was last named, or a state loaded."""
        return bool(self._read(_IN_WORKERS))

    def _read(self, column: int) -> int:
        with self._block.locked():
            return int(self._owner()[column])

    def set(self, epoch: int) -> None:
        """Name the epoch of the next pass; a loaded state keeps applying if it is of that epoch."""
        check_epoch(epoch)
        with self._block.locked():
            owner = self._owner()
            owner[_IN_WORKERS] = False
            if owner[_EPOCH] != epoch:
                owner[_EPOCH], owner[_RESUMING] = epoch, False

    def resume(self, epoch: int) -> None:
        """Name the epoch of the next pass, to which a state applies that the data set has just loaded."""
        with self._block.locked():
            owner = self._owner()
            owner[_EPOCH], owner[_RESUMING], owner[_IN_WORKERS] = epoch, True, False
            # Whatever pass of workers went before, it is of no account any more.
            self._passes[self._passes[:, _OWNER] == _owner_pid()] = 0

    def begin(self) -> ClockedPass:
        """Begin this reader's part in a pass: that of all workers of one loader, or of this process alone."""
        worker = get_worker_info()
        with self._block.locked():
            owner = self._owner()
            if worker is None:
                return ClockedPass(epoch=int(owner[_EPOCH]), resuming=bool(owner[_RESUMING]))
            # The seed that a loader gives all workers of one iterator tells it from others; persistent workers keep it,
            # and each counts how often it has begun.
            token = worker.seed - worker.id
            turn = self._turns[token] = self._turns.get(token, 0) + 1
            row = self._row(token, turn, worker.num_workers)
            shared = self._passes[row]
            shared[_BEGUN] += 1
            return ClockedPass(
                epoch=int(shared[_PASS_EPOCH]),
                resuming=bool(shared[_PASS_RESUMING]),
                row=row,
                serial=int(shared[_SERIAL]),
            )

    def take_up(self, begun: ClockedPass, epoch: int) -> None:
        """Make a pass that was begun one of this epoch, of which its reader resumes something that is left."""
        with self._block.locked():
            owner = self._owner()
            owner[_EPOCH], owner[_RESUMING] = epoch, False
            shared = self._shared(begun)
            if shared is not None:
                shared[_PASS_EPOCH], shared[_PASS_RESUMING] = epoch, False
                shared[_DONE] -= begun.finished
            begun.epoch, begun.resuming, begun.finished = epoch, False, False

    def finish(self, begun: ClockedPass) -> None:
        """Say that a reader is through; when all of the pass are, the next epoch begins, if no other was named."""
        if begun.finished:
            return
        begun.finished = True
        with self._block.locked():
            if begun.row is not None:
                shared = self._shared(begun)
                if shared is None:
                    return
                shared[_DONE] += 1
                if shared[_DONE] < shared[_WORKERS]:
                    return
            owner = self._owner()
            if owner[_EPOCH] == begun.epoch:
                owner[_EPOCH], owner[_RESUMING] = begun.epoch + 1, False

    def _shared(self, begun: ClockedPass) -> npt.NDArray[np.int64] | None:
        """The row of a pass; None where the reader is alone, or the pass so old that another one has the row."""
        if begun.row is None or self._passes[begun.row, _SERIAL] != begun.serial:
            return None
        return self._passes[begun.row, :]

    def _row(self, token: int, turn: int, workers: int) -> int:
        """Where the pass is that others of the loader's workers began, or a new one."""
        identity = (_owner_pid(), token, turn, workers)
        same = (self._passes[:, : _WORKERS + 1] == identity).all(1) & (self._passes[:, _BEGUN] < workers)
        if same.any():
            return int(same.argmax())
        self._begun_in_all[0] += 1
        serial = int(self._begun_in_all[0])
        row = serial % _PASSES
        owner = self._owner()
        owner[_IN_WORKERS] = True
        self._passes[row] = (*identity, serial, owner[_EPOCH], owner[_RESUMING], 0, 0)
        return row

    def _owner(self) -> npt.NDArray[np.int64]:
        """The row of the process that has the loaders; a new one begins where the data set's maker was."""
        pid = _owner_pid()
        known = self._owners[:, _PID] == pid
        if known.any():
            return self._owners[int(known.argmax()), :]
        free = self._owners[:, _PID] == 0
        if not free.any():
            # Whoever makes short-lived children, one for each evaluation for example, has more than that in time.
            free[1:] = [not _is_alive(int(pid)) for pid in self._owners[1:, _PID]]
        if not free.any():
            raise RuntimeError(
                f"more than {_OWNERS} processes at once iterate one data set object that they inherited: construct it "
                "in each"
            )
        row: npt.NDArray[np.int64] = self._owners[int(free.argmax()), :]
        row[:] = pid, *self._owners[0, _EPOCH:_IN_WORKERS], False
        return row

    def __getstate__(self) -> dict[str, Any]:
        if is_being_sent_to_a_child():
            return {"block": self._block}
        return {"epoch": self.epoch, "resuming": self.resuming}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "block" in state:
            self._block = state["block"]
            self._attach()
        else:
            EpochClock.__init__(self, state["epoch"], resuming=state["resuming"])


def _owner_pid() -> int:
    """The process that the calling one reads for: itself, or the one whose loader's worker it is."""
    parent = multiprocessing.parent_process() if get_worker_info() is not None else None
    return os.getpid() if parent is None or parent.pid is None else parent.pid


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, so it is there
    return True
