"""The plugin that lets the training go on while a checkpoint is sent."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from torchbucket.checkpoint.asynchronous import save_async_to
from torchbucket.config import StoreConfig
from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
from torchbucket.lightning.saves_under_way import SavesUnderWay
from torchbucket.public import public_in
from torchbucket.uri import ObjectURI

__all__ = ["AsyncBucketCheckpointIO"]


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
        self.saves = SavesUnderWay()

    @property
    def is_durable(self) -> bool:
        """Whether all that was saved, copied and removed since the last failure is done."""
        return self.saves.is_durable

    def is_saving(self, path: str | os.PathLike[str]) -> bool:
        """Whether a checkpoint of that path is under way, so that nobody sees it yet."""
        return self.saves.is_saving(path)

    def wait(self) -> None:
        """Wait until all that was saved is durable and all that was to be removed is; raise what failed, once.

        Raises:
            StoreError: a save or a removal failed.
        """
        self.saves.wait()

    def wait_for_end(self) -> None:
        """Wait as ``wait`` does, and leave what failed to it."""
        self.saves.wait_for_end()

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
        save = save_async_to(
            self._store(location), location.key, checkpoint, multipart=self._multipart, verify=self._verify
        )
        self.saves.begin(save, location, lambda: save.durable_s is not None)

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
            self.saves.end()
        finally:
            super().teardown()

    def _copy(self, source: ObjectURI, target: ObjectURI) -> None:
        self.saves.then("copied", target, partial(super()._copy, source, target))

    def _remove(self, location: ObjectURI) -> None:
        self.saves.then("removed", location, partial(super()._remove, location))

    def __getstate__(self) -> dict[str, Any]:
        """Of a plugin that goes to another process: what is under way stays in this one."""
        return {**self.__dict__, "saves": SavesUnderWay()}
