"""The plugin that lets the training go on while a checkpoint is sent."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from torchbucket.checkpoint.asynchronous import save_async_to
from torchbucket.checkpoint.background import SaveFuture
from torchbucket.config import StoreConfig
from torchbucket.lightning.checkpoint_io import BucketCheckpointIO, located
from torchbucket.public import public_in
from torchbucket.uri import ObjectURI

__all__ = ["AsyncBucketCheckpointIO"]

_log = logging.getLogger("torchbucket.lightning")


@public_in("torchbucket.lightning")
class AsyncBucketCheckpointIO(BucketCheckpointIO):
    """As :class:`BucketCheckpointIO`, but ``save_checkpoint`` returns when the checkpoint is copied into memory.

    One checkpoint is under way at a time: the next save waits for its end, as do a load and the end of ``fit``, and
    there a failure is raised. What is to be removed is removed once the checkpoints saved before are durable, and kept
    where one of them failed. Use :class:`BucketModelCheckpoint` with it, so that loggers hear of what is durable.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        multipart: see ``torchbucket.save``.
        verify: see ``torchbucket.save``.
    """

    def __init__(self, config: StoreConfig | None = None, *, multipart: bool = True, verify: bool = False) -> None:
        super().__init__(config, multipart=multipart, verify=verify)
        self._save: SaveFuture | None = None
        self._saving: ObjectURI | None = None
        self._next: list[Future[None]] = []  # what is done once that is durable, in this order
        self._queue: ThreadPoolExecutor | None = None
        self._failed = False

    @property
    def is_durable(self) -> bool:
        """Whether all that was saved, copied and removed since the last failure is done."""
        save_is = not self._failed if self._save is None else self._save.durable_s is not None
        return save_is and all(done.done() and done.exception() is None for done in self._next)

    def is_saving(self, path: str | os.PathLike[str]) -> bool:
        """Whether a checkpoint of that path is under way, so that nobody sees it yet."""
        return self._save is not None and not self._save.done() and self._saving == located(path)

    def wait(self) -> None:
        """Wait until all that was saved is durable and all that was to be removed is; raise what failed, once.

        Raises:
            StoreError: a save or a removal failed.
        """
        self.wait_for_end()
        save, self._save = self._save, None
        done, self._next = self._next, []
        try:
            if save is not None:
                save.result()
            for work in done:
                work.result()
        except BaseException:
            self._failed = True
            raise

    def wait_for_end(self) -> None:
        """Wait as ``wait`` does, and leave what failed to it."""
        if self._save is not None:
            wait([self._save])
        wait(self._next)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any | None = None
    ) -> None:
        """Copy a checkpoint into memory, begin to save it and return.

        Raises:
            ConfigError: the path names no object.
            StoreError: an earlier save failed; this one is not begun then.
            TypeError: there are ``storage_options``.
        """
        self.wait()
        location = self._begin_save(path, storage_options)
        self._save = save_async_to(
            self._store(location), location.key, checkpoint, multipart=self._multipart, verify=self._verify
        )
        self._saving, self._failed = location, False

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = "cpu",
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Load a checkpoint when all that was saved is durable; see :class:`BucketCheckpointIO`."""
        self.wait()
        return super().load_checkpoint(path, map_location, weights_only)

    def teardown(self) -> None:
        """Wait until the last checkpoint is durable; Lightning calls this at the end of ``fit`` and its like.

        Raises:
            StoreError: it could not be saved, or something not be removed.
        """
        try:
            self.wait()
        finally:
            queue, self._queue = self._queue, None
            if queue is not None:
                queue.shutdown()
            super().teardown()

    def _copy(self, source: ObjectURI, target: ObjectURI) -> None:
        self._then("copied", target, partial(super()._copy, source, target))

    def _remove(self, location: ObjectURI) -> None:
        self._then("removed", location, partial(super()._remove, location))

    def _then(self, what: str, location: ObjectURI, work: Callable[[], None]) -> None:
        """Do some work when what is under way is durable, unless it fails; at once where nothing is."""
        save = self._save
        if save is None:
            work()
            return

        def once_durable() -> None:
            wait([save])
            if save.durable_s is None:
                _log.warning("%s is not %s, since the save to %s before it failed", location, what, save.uri)
            else:
                work()

        if self._queue is None:
            self._queue = ThreadPoolExecutor(1, "torchbucket-lightning")
        self._next.append(self._queue.submit(once_durable))

    def __getstate__(self) -> dict[str, Any]:
        """Of a plugin that goes to another process: what is under way stays in this one."""
        return {**self.__dict__, "_save": None, "_saving": None, "_next": [], "_queue": None}
