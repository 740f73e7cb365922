"""Saving distributed checkpoints in the background: one at a time, from memory that is kept for the next."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.planner import SavePlanner
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse, async_save
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.checkpoint.storage import StorageWriter

from torchbucket.dcp.ranks import Ranks
from torchbucket.dcp.staging import HostStager, Staged
from torchbucket.errors import ConfigError
from torchbucket.public import public_in

__all__ = ["AsyncSaver"]

_log = logging.getLogger("torchbucket.dcp")


@public_in("torchbucket.dcp")
class AsyncSaver:
    """Saves distributed checkpoints by ``async_save``, with what that leaves to its caller.

        with AsyncSaver() as saver:
            for step in range(1, 1001):
                train()
                if step % 100 == 0:
                    saver.save(state, BucketStorageWriter(f"s3://bucket/run-1/step-{step}"))

    The state is copied at the call, into memory that the next save uses again: fresh memory takes several times as long
    as the copy itself. So there is one copy in a process, and a save waits for the one before. What made that fail is
    raised, on every rank, by the next call of ``save``, ``wait`` or ``close``, and logged where there is none.

    All ranks make one, save and wait at the same places. It is not safe for use by several threads.

    Args:
        process: save in a process of its own, which takes no time of the interpreter that trains, rather than in a
            thread. The copy is in shared memory then.
        process_group: for the background's own use, with a backend for the CPU; None makes one of all ranks, or none
            where ``torch.distributed`` is not initialized.
        overlap: return before the state is copied, which then must not change before ``wait_until_staged``. For states
            on a GPU, whose copy goes on beside the next forward pass.

    Raises:
        ConfigError: the group cannot hand on what the ranks tell each other of a save.
    """

    def __init__(
        self, *, process: bool = False, process_group: dist.ProcessGroup | None = None, overlap: bool = False
    ) -> None:
        self._kind = AsyncCheckpointerType.PROCESS if process else AsyncCheckpointerType.THREAD
        self._no_dist = not dist.is_initialized()
        if process and self._no_dist:
            raise ConfigError(
                "AsyncSaver(process=True): PyTorch starts that process for a process group; call "
                "torch.distributed.init_process_group first, or save in a thread"
            )
        self._own_group = dist.new_group(backend="gloo") if process_group is None and not self._no_dist else None
        self._group = process_group if process_group is not None else self._own_group
        if self._group is not None and "cpu" not in {device.type for device in self._group._device_types}:
            raise ConfigError(
                f"process_group: a save in the background needs a backend for the CPU, and this one has "
                f"{dist.get_backend_config(self._group)}; make it by torch.distributed.new_group(backend='gloo')"
            )
        self._stager: Final = HostStager(shared=process, overlap=overlap)
        self._last: AsyncSaveResponse | None = None
        self._is_closed = False

    def save(
        self, state_dict: dict[str, Any], storage_writer: StorageWriter, *, planner: SavePlanner | None = None
    ) -> AsyncSaveResponse:
        """Copy a state, once the save before has ended, and save the copy in the background.

        Args:
            state_dict: as of ``torch.distributed.checkpoint.save``.
            storage_writer: where to, such as a ``BucketStorageWriter``.
            planner: as of ``torch.distributed.checkpoint.save``.

        Returns:
            Two futures: ``staging_completion``, until which the state must not change, and ``upload_completion``, whose
            result is the checkpoint's metadata once it is complete.

        Raises:
            CheckpointException: the save before has failed; this one is not begun.
            CheckpointError: another rank could not copy its state, or heard of that failure alone; none begins.
            ConfigError: it is closed.
        """
        if self._is_closed:
            raise ConfigError("this AsyncSaver is closed; make another")
        copy = self._copied_by_all(state_dict)
        response = async_save(
            {},
            storage_writer=storage_writer,
            planner=planner,
            process_group=self._group,
            async_checkpointer_type=self._kind,
            async_stager=Staged(_with_failure(copy) if isinstance(copy, Future) else copy),
            no_dist=self._no_dist,
        )
        upload = response if isinstance(response, Future) else response.upload_completion
        response = AsyncSaveResponse(staging_completion=_end_of(copy), upload_completion=upload)
        where = getattr(storage_writer, "checkpoint_id", None)
        response.upload_completion.add_done_callback(lambda ended: _log_failure(ended, where))
        self._last = response
        return response

    def _copied_by_all(self, state_dict: dict[str, Any]) -> dict[str, Any] | Future[dict[str, Any]]:
        """Copy a state once the save before has ended, or raise on every rank where one could not.

        PyTorch tells the others only of what fails in the save itself. They would wait in it for this rank, and take
        what it sends with its next save for its part of this one.
        """
        copies: list[dict[str, Any] | Future[dict[str, Any]]] = []

        def copy() -> None:
            self.wait()
            state = {
                name: value.state_dict() if isinstance(value, Stateful) else value for name, value in state_dict.items()
            }
            copies.append(self._stager.stage(state))

        Ranks(self._group).all_do(copy, "could not begin to save")
        return copies[0]

    def wait_until_staged(self) -> None:
        """Wait until the state of the last save may change.

        Raises:
            Exception: it could not be copied.
        """
        if self._last is not None:
            self._last.staging_completion.result()

    def wait(self) -> None:
        """Wait until the last checkpoint is complete.

        Raises:
            CheckpointException: it could not be saved; that is raised once.
        """
        last, self._last = self._last, None
        if last is not None:
            try:
                last.upload_completion.result()
            finally:
                self._stager.recycle()

    def close(self) -> None:
        """Wait, and give the memory and the group of its own back.

        Raises:
            CheckpointException: the last checkpoint could not be saved.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.wait()
        finally:
            self._stager.close()
            if self._own_group is not None and dist.is_initialized():
                dist.destroy_process_group(self._own_group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except (Exception, CheckpointException) as failed:  # which PyTorch makes no Exception
            if error is None:
                raise
            error.add_note(f"The save under way in the background failed, too: {failed}")


class _Failed:
    """Stands for a state that could not be copied, and says so where the plan is made, of which every rank hears."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __create_write_items__(self, name: str, value: object) -> NoReturn:
        raise self._error


def _with_failure(copy: Future[dict[str, Any]]) -> Future[dict[str, Any]]:
    """A copy that goes on beside the training; where it fails, a state that makes the save fail on every rank."""
    told: Future[dict[str, Any]] = Future()

    def tell(ended: Future[dict[str, Any]]) -> None:
        error = ended.exception()
        if error is None:
            told.set_result(ended.result())
        else:
            told.set_result({"state": _Failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))})

    copy.add_done_callback(tell)
    return told


def _end_of(copy: dict[str, Any] | Future[dict[str, Any]]) -> Future[None]:
    """When the state may change again."""
    end: Future[None] = Future()
    if not isinstance(copy, Future):
        end.set_result(None)
        return end

    def tell(ended: Future[dict[str, Any]]) -> None:
        error = ended.exception()
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)

    copy.add_done_callback(tell)
    return end


def _log_failure(ended: Future[Any], where: Any) -> None:
    error = ended.exception()
    if error is not None:
        _log.error("the save to %s failed: %s", where, error)
