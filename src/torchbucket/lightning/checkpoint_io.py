"""The plugin that saves, loads and removes a Trainer's checkpoints in a bucket."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torchbucket.checkpoint.loading import load_from
from torchbucket.checkpoint.saving import save_to
from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import ConfigError, PermissionDeniedError
from torchbucket.lightning.location import config_for, located, refuse_storage_options
from torchbucket.lightning.package import fabric, loaded_fabrics
from torchbucket.lightning.run_history import RunHistory
from torchbucket.public import public_in
from torchbucket.store.protocol import Store
from torchbucket.store.shared import shared_store
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import ObjectURI

if TYPE_CHECKING:
    from lightning.fabric.plugins import CheckpointIO
else:
    CheckpointIO = fabric("plugins").CheckpointIO

__all__ = ["BucketCheckpointIO"]

_log = logging.getLogger("torchbucket.lightning")

# Objects of a directory that are removed at a time; a checkpoint in shards has as many as ranks.
_REMOVALS: Final = 16


@public_in("torchbucket.lightning")
class BucketCheckpointIO(CheckpointIO):
    """Has a ``Trainer`` keep its checkpoints in a bucket: ``Trainer(plugins=[BucketCheckpointIO(config)])``.

    Paths may be addresses (``s3://``, ``gs://``), ones that became a ``pathlib.Path`` and so lost a slash, and paths on
    this machine, relative ones too. A checkpoint appears whole or not at all on all of them.

    A checkpoint that the run went on from is never removed: neither it, which was loaded before something was saved,
    nor what lies in a directory that the run has not saved to, which is another run's. A run elsewhere knows nothing
    of that: give each run a directory of its own.

    ``ModelCheckpoint`` looks into directories by itself, through fsspec; see ``docs/lightning.md``.

    Args:
        config: how to reach the bucket; None means ``StoreConfig()``.
        multipart: see ``torchbucket.save``.
        verify: see ``torchbucket.save``.

    Raises:
        ConfigError: a wrong setting.
    """

    def __init__(self, config: StoreConfig | None = None, *, multipart: bool = True, verify: bool = False) -> None:
        super().__init__()
        check_config(config)
        self._config = config
        self._multipart = multipart
        self._verify = verify
        self._history = RunHistory()
        for module in loaded_fabrics("plugins"):
            module.CheckpointIO.register(type(self))  # so that the Trainer of another package takes it, too

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any | None = None
    ) -> None:
        """Save a checkpoint; it is durable when this returns.

        Raises:
            ConfigError: the path names no object.
            StoreError: the save failed; what the path held before is untouched.
            TypeError: there are ``storage_options``; the plugin has its settings from ``config``.
        """
        location = self._begin_save(path, storage_options)
        save_to(self._store(location), location.key, checkpoint, multipart=self._multipart, verify=self._verify)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = "cpu",
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Load a checkpoint, onto the CPU unless told otherwise, from where Lightning copies it.

        Args:
            path: its address.
            map_location: as of ``torchbucket.load``.
            weights_only: refuse to unpickle anything but tensors and plain values; None means True, as in
                ``torch.load``. Lightning passes on what ``trainer.fit(weights_only=...)`` says.

        Raises:
            FileNotFoundError: there is none.
            StoreError: it could not be read.
            CheckpointError: the object is no checkpoint, or a damaged one.
            pickle.UnpicklingError: ``weights_only`` refuses it.
        """
        location = located(path)
        loaded: dict[str, Any] = load_from(
            self._store(location),
            location.key,
            map_location=map_location,
            weights_only=weights_only is None or weights_only,
        )
        self._history.loads(location)
        return loaded

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove a checkpoint, or a directory of one with all that is in it; one that is not there is no error.

        Nothing is removed that another run left and this one went on from; a message tells so.

        Raises:
            ConfigError: the path names a whole bucket.
            StoreError: it could not be removed.
        """
        location = located(path)
        if self._history.is_of_another_run(location):
            _log.info("%s is kept: another run left it, and this one went on from there", location)
        else:
            self._remove(location)

    def copy_checkpoint(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Copy a checkpoint to another path of its bucket, on the server's side, replacing what is there."""
        source, copied = located(path), located(target)
        if source.root != copied.root:
            raise ConfigError(f"a copy stays in its bucket: {str(source)!r} and {str(copied)!r} are in two")
        self._history.writes(copied)
        self._copy(source, copied)

    def _copy(self, source: ObjectURI, target: ObjectURI) -> None:
        self._store(source).copy(source.key, target.key)

    def _remove(self, location: ObjectURI) -> None:
        store, key = self._store(location), location.key
        if location.scheme == "file":
            directory = Path(f"/{key}")
            if directory.is_dir() and not directory.is_symlink():
                shutil.rmtree(directory)
                return
        store.delete(key)
        try:
            within = [info.key for info in store.list(f"{key}/")]
        except PermissionDeniedError as error:
            _log.warning("%s is removed, but not what may lie below it as a directory: %s", location, error)
            return
        if within:
            with ThreadPool(min(_REMOVALS, len(within))) as pool:
                list(pool.map(store.delete, within))

    def _begin_save(self, path: str | os.PathLike[str], storage_options: Any | None) -> ObjectURI:
        refuse_storage_options(self, storage_options)
        location = located(path)
        self._history.saves(location)
        return location

    def _store(self, location: ObjectURI) -> Store:
        return shared_store(location, config_for(location, self._config))
