"""A ``ModelCheckpoint`` that knows buckets, and saves that are not durable yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import proxy

from torchbucket.errors import CheckpointError
from torchbucket.lightning.async_checkpoint_io import AsyncBucketCheckpointIO
from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
from torchbucket.lightning.package import fabric, pytorch
from torchbucket.lightning.saves_under_way import SavesUnderWay
from torchbucket.public import public_in

if TYPE_CHECKING:
    from lightning.fabric.utilities.cloud_io import _is_local_file_protocol, get_filesystem
    from lightning.pytorch.callbacks import ModelCheckpoint
else:
    ModelCheckpoint = pytorch("callbacks").ModelCheckpoint
    get_filesystem = fabric("utilities.cloud_io").get_filesystem
    _is_local_file_protocol = fabric("utilities.cloud_io")._is_local_file_protocol

__all__ = ["BucketModelCheckpoint"]


@public_in("torchbucket.lightning")
class BucketModelCheckpoint(ModelCheckpoint):
    """Lightning's ``ModelCheckpoint``, with its arguments, and what that leaves out where ``dirpath`` is in a bucket.

    - ``fit(ckpt_path="last")`` finds the last checkpoint there.
    - ``save_last="link"`` copies the checkpoint on the server's side, since a bucket has no links; a sharded one is
      saved again.
    - With saves in the background, by :class:`AsyncBucketCheckpointIO` or a strategy, loggers hear of checkpoints once
      they are durable, in the training's own thread, and a name that is being saved is taken.

    It finds out what is in the bucket as Lightning does, through fsspec; see ``docs/lightning.md``.
    """

    _untold = False  # Whether something was saved that the loggers have not heard of.

    @property
    def state_key(self) -> str:
        """That of ``ModelCheckpoint``, so that a run may go on from a checkpoint that was saved with either."""
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Have Lightning set up the callback, which takes no links on a bucket; ours are copies."""
        save_last, self.save_last = self.save_last, None if self.save_last == "link" else self.save_last
        try:
            super().setup(trainer, pl_module, stage)
        finally:
            self.save_last = save_last

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Tell the loggers of what has become durable; save where it is time to."""
        self._tell(trainer)
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Save where that is asked for, and tell the loggers, before they end, of what is durable."""
        super().on_exception(trainer, pl_module, exception)
        saves = _saves(trainer)
        if saves is not None:
            saves.wait_for_end()
            self._tell(trainer)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Wait until all is durable and tell the loggers, before they end."""
        saves = _saves(trainer)
        if saves is not None:
            saves.wait()
            self._tell(trainer)
        super().teardown(trainer, pl_module, stage)

    def file_exists(self, filepath: Any, trainer: Any) -> bool:
        """Whether rank 0 finds a checkpoint of that name, or is saving one."""
        if _saves_in_shards(trainer):
            # Not what a save that never ended has left: the next one takes its place.
            found: bool = trainer.strategy.has_checkpoint(filepath)
            return found
        saves = _saves(trainer)
        saving = saves is not None and trainer.is_global_zero and saves.is_saving(filepath)
        self._fs.invalidate_cache()  # What the plugin saves and removes passes by what s3fs remembers of a directory.
        # All ranks ask, and must make the same decision.
        return trainer.strategy.reduce_boolean_decision(saving, all=False) or super().file_exists(filepath, trainer)

    def _save_checkpoint(self, trainer: Any, filepath: str) -> None:
        later = _saves(trainer) is not None
        seen: Any = _WithoutLoggers(trainer) if later else trainer
        super()._save_checkpoint(seen, filepath)
        self._untold = later

    def _tell(self, trainer: Any) -> None:
        """Tell the loggers, if all that the callback's state names is durable."""
        saves = _saves(trainer)
        if self._untold and saves is not None and saves.is_durable:
            self._untold = False
            if trainer.is_global_zero:
                for logger in trainer.loggers:
                    logger.after_save_checkpoint(proxy(self))

    def _link_checkpoint(self, trainer: Any, filepath: str, linkpath: str) -> None:  # type: ignore[override]
        if _is_local_file_protocol(linkpath) and _saves(trainer) is None:
            super()._link_checkpoint(trainer, filepath, linkpath)
            return
        plugin = None if _saves_in_shards(trainer) else _bucket_plugin(trainer)
        if plugin is None:
            self._save_checkpoint(trainer, linkpath)
            return
        failed = None
        if trainer.is_global_zero and filepath != linkpath:
            try:
                plugin.copy_checkpoint(filepath, linkpath)
            except Exception as error:  # noqa: BLE001  # the others wait to be told
                failed = error
        told = trainer.strategy.broadcast(failed and f"{type(failed).__name__}: {failed}")
        if failed is not None:
            raise failed
        if told is not None:
            raise CheckpointError(
                f"{linkpath}: rank 0 could not copy {filepath} there, and so no rank goes on: {told}", uri=linkpath
            )

    def _find_last_checkpoints(self, trainer: Any) -> set[str]:
        # Called before `setup`, so that the file system is that of the working directory where no `dirpath` was given.
        self._fs = get_filesystem(self.dirpath or trainer.default_root_dir)
        self._fs.invalidate_cache()
        found: set[str] = super()._find_last_checkpoints(trainer)
        if _is_local_file_protocol(self.dirpath or trainer.default_root_dir):
            return found
        return {self._fs.unstrip_protocol(path) for path in found}  # Their scheme is lost on the way.


class _WithoutLoggers:
    """A trainer, as a save sees it that must not tell the loggers yet."""

    loggers = ()

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)


def _bucket_plugin(trainer: Any) -> BucketCheckpointIO | None:
    """Ours, also where another plugin is around it."""
    plugin = trainer.strategy.checkpoint_io
    while not isinstance(plugin, BucketCheckpointIO):
        plugin = getattr(plugin, "checkpoint_io", None)
        if plugin is None:
            return None
    return plugin


def _saves_in_shards(trainer: Any) -> bool:
    """Whether the trainer has one of our strategies, which saves a directory by itself, without a plugin."""
    return getattr(trainer.strategy, "saves_in_shards", False)


def _saves(trainer: Any) -> SavesUnderWay | None:
    """What goes on in the background; None where saves are durable when they return."""
    if _saves_in_shards(trainer):
        saves: SavesUnderWay | None = trainer.strategy.saves
        return saves
    plugin = _bucket_plugin(trainer)
    return plugin.saves if isinstance(plugin, AsyncBucketCheckpointIO) else None
