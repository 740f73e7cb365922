"""A ``ModelCheckpoint`` that knows buckets, and saves that are not durable yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import proxy

from torchbucket.lightning.async_checkpoint_io import AsyncBucketCheckpointIO
from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
from torchbucket.lightning.package import fabric, pytorch
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
    - ``save_last="link"`` copies the checkpoint on the server's side, since a bucket has no links.
    - With :class:`AsyncBucketCheckpointIO` loggers hear of checkpoints once they are durable, in the training's own
      thread, and a name that is being saved is taken.

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
        plugin = _asynchronous(trainer)
        if plugin is not None:
            plugin.wait_for_end()
            self._tell(trainer)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Wait until all is durable and tell the loggers, before they end."""
        plugin = _asynchronous(trainer)
        if plugin is not None:
            plugin.wait()
            self._tell(trainer)
        super().teardown(trainer, pl_module, stage)

    def file_exists(self, filepath: Any, trainer: Any) -> bool:
        """Whether rank 0 finds a checkpoint of that name, or is saving one."""
        plugin = _asynchronous(trainer)
        saving = plugin is not None and trainer.is_global_zero and plugin.is_saving(filepath)
        self._fs.invalidate_cache()  # What the plugin saves and removes passes by what s3fs remembers of a directory.
        # All ranks ask, and must make the same decision.
        return trainer.strategy.reduce_boolean_decision(saving, all=False) or super().file_exists(filepath, trainer)

    def _save_checkpoint(self, trainer: Any, filepath: str) -> None:
        later = _asynchronous(trainer) is not None
        seen: Any = _WithoutLoggers(trainer) if later else trainer
        super()._save_checkpoint(seen, filepath)
        self._untold = later

    def _tell(self, trainer: Any) -> None:
        """Tell the loggers, if all that the callback's state names is durable."""
        plugin = _asynchronous(trainer)
        if self._untold and plugin is not None and plugin.is_durable:
            self._untold = False
            if trainer.is_global_zero:
                for logger in trainer.loggers:
                    logger.after_save_checkpoint(proxy(self))

    def _link_checkpoint(self, trainer: Any, filepath: str, linkpath: str) -> None:  # type: ignore[override]
        if _is_local_file_protocol(linkpath) and _asynchronous(trainer) is None:
            super()._link_checkpoint(trainer, filepath, linkpath)
            return
        plugin = _bucket_plugin(trainer)
        if plugin is None:
            self._save_checkpoint(trainer, linkpath)
            return
        if trainer.is_global_zero and filepath != linkpath:
            plugin.copy_checkpoint(filepath, linkpath)
        trainer.strategy.barrier()

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


def _asynchronous(trainer: Any) -> AsyncBucketCheckpointIO | None:
    plugin = _bucket_plugin(trainer)
    return plugin if isinstance(plugin, AsyncBucketCheckpointIO) else None
