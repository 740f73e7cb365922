"""What the strategies that keep sharded checkpoints in a bucket have in common: how each is saved, loaded, removed."""

from __future__ import annotations

import io
import logging
import os
from abc import abstractmethod
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from torchbucket.config import StoreConfig, check_config
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.found_checkpoints import FoundCheckpoint
from torchbucket.dcp.metadata_file import METADATA_NAME
from torchbucket.dcp.reader import BucketStorageReader
from torchbucket.dcp.staging import HostStager, Staged
from torchbucket.dcp.writer import BucketStorageWriter
from torchbucket.errors import CheckpointError
from torchbucket.lightning.agreement import RanksTogether
from torchbucket.lightning.async_checkpoint_io import AsyncBucketCheckpointIO
from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
from torchbucket.lightning.location import config_for, located, refuse_storage_options
from torchbucket.lightning.package import pytorch
from torchbucket.lightning.run_history import RunHistory
from torchbucket.lightning.saves_under_way import SavesUnderWay
from torchbucket.lightning.sharded_files import REST_NAME, found_at, is_there, pickled_rest, rest_of
from torchbucket.lightning.training_state import optimizer_name, state_to_fill, take_sharded, take_whole
from torchbucket.uri import ObjectURI

if TYPE_CHECKING:
    from lightning.pytorch.strategies import ParallelStrategy
else:
    ParallelStrategy = pytorch("strategies").ParallelStrategy

__all__ = ["BucketStrategy"]

_log = logging.getLogger("torchbucket.lightning")

_FITTING: Final = "fit"


class BucketStrategy(ParallelStrategy):
    """The part of a strategy that saves, loads and removes checkpoints; the rest is Lightning's.

    A sharded checkpoint is the directory that Lightning's strategy writes to a disk: the files of
    ``torch.distributed.checkpoint``, and ``meta.pt``. Its ``.metadata`` is written last, and is what makes it one.
    """

    _model_name: ClassVar[str]
    """What the model is called in a sharded checkpoint."""
    _whole_is_for_all: ClassVar[bool]
    """Whether every rank needs a whole checkpoint to load its part of it, not only the first."""

    _timeout: timedelta | None
    optimizers: list[Any]

    def _keep_in_bucket(self, config: StoreConfig | None, *, use_async: bool) -> None:
        """Say how; to be called when the strategy is made."""
        check_config(config)
        self._config = config
        self._use_async = use_async
        self._history = RunHistory()
        self._saves = SavesUnderWay()
        self._together: RanksTogether | None = None
        self._stager: AsyncStager | None = None

    @property
    @abstractmethod
    def saves_in_shards(self) -> bool:
        """Whether each rank saves its own part, and not the first one all."""

    @property
    def saves(self) -> SavesUnderWay | None:
        """What goes on in the background; None where nothing does."""
        if self.saves_in_shards:
            return self._saves if self._use_async else None
        plugin = self.checkpoint_io
        return plugin.saves if isinstance(plugin, AsyncBucketCheckpointIO) else None

    @property
    def checkpoint_io(self) -> Any:
        """What saves and loads whole checkpoints: ours, unless the Trainer was given one."""
        if self._checkpoint_io is None:
            kind = AsyncBucketCheckpointIO if self._use_async else BucketCheckpointIO
            self._checkpoint_io = kind(self._config)
        return self._checkpoint_io

    @checkpoint_io.setter
    def checkpoint_io(self, plugin: Any) -> None:
        self._checkpoint_io = plugin

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | os.PathLike[str], storage_options: Any | None = None
    ) -> None:
        """Save a checkpoint, all ranks together, to the address that rank 0 has been given.

        It is durable when this returns; with ``use_async`` it is copied, and sent meanwhile.

        Raises:
            CheckpointError: another rank has failed before anything was saved, and none saves.
            CheckpointException: the save failed, or the one in the background before it; of all ranks that failed.
            ConfigError: the path is that of a whole bucket.
            StoreError: an earlier whole checkpoint could not be taken away, or this one not be written.
            TypeError: there are ``storage_options``.
        """
        refuse_storage_options(self, storage_options)
        if self.saves_in_shards:
            self._save_shards(checkpoint, filepath)
        else:
            self._ranks().all_or_none(partial(self._save_whole, checkpoint, filepath))

    def load_checkpoint(
        self, checkpoint_path: str | os.PathLike[str], weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load a checkpoint, sharded or whole, into the model and, where a fit goes on, into the optimizers.

        Args:
            checkpoint_path: its address; that of rank 0 counts.
            weights_only: refuse to unpickle anything but tensors and plain values, as ``torch.load``; None means True.

        Returns:
            What is neither model nor optimizer.

        Raises:
            CheckpointError: it is not complete, or another rank has failed.
            CheckpointException: a rank could not load its part.
            NotFoundError: there is none.
            StoreError: it could not be read.
            pickle.UnpicklingError: ``weights_only`` refuses it.
        """
        ranks = self._ranks()

        def ready() -> str:
            self._saves.wait()
            return os.fspath(checkpoint_path)

        location = located(ranks.all_or_none(ready)[0])
        directory = self._directory(location)
        rest = ranks.from_first(lambda: rest_of(directory))
        if rest is None:
            loaded = self._load_whole(location, weights_only)
        else:
            weights_only = weights_only is None or weights_only
            loaded = torch.load(io.BytesIO(rest), map_location="cpu", weights_only=weights_only)
            self._load_shards(directory, weights_only=weights_only)
        self._history.loads(location)
        return loaded

    def has_checkpoint(self, filepath: str | os.PathLike[str]) -> bool:
        """Whether rank 0 finds a complete checkpoint, or is saving one; all ranks ask together, and are told the same.

        Raises:
            CheckpointError: rank 0 could not tell.
            StoreError: this is rank 0.
        """
        location = located(filepath)
        directory = self._directory(location)
        return self._ranks().from_first(
            lambda: self._saves.is_saving(filepath) or is_there(directory, METADATA_NAME) or is_there(directory, None)
        )

    def remove_checkpoint(self, filepath: str | os.PathLike[str]) -> None:
        """Remove a checkpoint, on rank 0, once what is being saved is durable; what is not there is no error.

        Of a sharded one ``.metadata`` goes first, and of its directory only what was written with it. Nothing is
        removed that another run left and this one went on from, nor what another program wrote; a message tells so.

        With several ranks a failure is logged, and raised on each of them by the next save or load, or at the end of
        ``fit`` on rank 0: it does this by itself, and the others would wait for one that had failed.

        Raises:
            StoreError: it could not be removed, where there is one rank.
        """
        if not self.is_global_zero:
            return
        location = located(filepath)
        if self._history.is_of_another_run(location):
            _log.info("%s is kept: another run left it, and this one went on from there", location)
        else:
            remove = partial(self._saves.then, "removed", location, partial(self._remove, location))
            if self.world_size == 1:
                remove()
            else:
                self._saves.attempt(location, remove)

    def wait(self) -> None:
        """Wait until what was saved in the background is durable; raise what failed, once.

        The end of ``fit`` does; call it after a ``trainer.save_checkpoint`` that follows the fit.
        """
        saves = self.saves
        if saves is not None:
            saves.wait()

    def teardown(self) -> None:
        """Wait until the last checkpoint is durable, and end the strategy.

        Raises:
            CheckpointException: the last checkpoint could not be saved.
            StoreError: or something not be removed.
        """
        with ExitStack() as stack:
            stack.callback(super().teardown)
            stack.callback(self._leave_groups)
            if self._checkpoint_io is not None:
                stack.callback(self._checkpoint_io.teardown)
            stack.callback(self._forget_copies)
            self._saves.end()

    def _save_shards(self, checkpoint: dict[str, Any], filepath: str | os.PathLike[str]) -> None:
        state = {self._model_name: checkpoint.pop("state_dict")}
        for number, of_optimizer in enumerate(checkpoint.pop("optimizer_states", [])):
            state[optimizer_name(number)] = of_optimizer
        beside: dict[str, bytes] = {}

        def ready() -> str:
            self._saves.wait()
            if self.is_global_zero:
                beside[REST_NAME] = pickled_rest(checkpoint)
            return os.fspath(filepath)

        ranks = self._ranks()
        location = located(ranks.all_or_none(ready)[0])
        writer = BucketStorageWriter(location, config=config_for(location, self._config), beside=beside)
        self._history.saves(location)
        if not self._use_async:
            save(state, storage_writer=writer, process_group=ranks.group, no_dist=ranks.group is None)
            return
        copied: dict[str, Any] = {}
        # Before any rank begins: one that cannot would be waited for by the others.
        ranks.all_or_none(lambda: copied.update(self._copy_of(state)))
        group = ranks.background_group()
        future: Any = async_save(
            {},
            storage_writer=writer,
            process_group=group,
            no_dist=group is None,
            async_stager=Staged(copied),
        )
        future.add_done_callback(partial(_tell_failure, location))
        self._saves.begin(future, location, lambda: future.done() and future.exception() is None)

    def _load_shards(self, directory: CheckpointDirectory, *, weights_only: bool) -> None:
        strict, optimizers = self._strict, self._optimizers_to_load()
        state = state_to_fill(self._wrapped_model, self._model_name, optimizers)
        group = self._ranks().group
        load(
            state,
            storage_reader=BucketStorageReader(
                directory.location,
                config=config_for(directory.location, self._config),
                weights_only=weights_only,
                metadata_once=group is not None,
                process_group=group,
            ),
            planner=DefaultLoadPlanner(allow_partial_load=not strict),
            process_group=group,
            no_dist=group is None,
        )
        take_sharded(self._wrapped_model, self._model_name, optimizers, state, strict=strict)

    def _save_whole(self, checkpoint: dict[str, Any], filepath: str | os.PathLike[str]) -> None:
        self._saves.wait()
        if not self.is_global_zero:
            return
        location = located(filepath)
        directory = self._directory(location)
        if is_there(directory, METADATA_NAME):
            FoundCheckpoint.at(directory).remove()  # which would be loaded instead
        self._history.saves(location)
        self.checkpoint_io.save_checkpoint(checkpoint, filepath)

    def _load_whole(self, location: ObjectURI, weights_only: bool | None) -> dict[str, Any]:
        ranks = self._ranks()
        checkpoint: dict[str, Any] = {}

        def read() -> None:
            if self.is_global_zero or self._whole_is_for_all:
                checkpoint.update(self.checkpoint_io.load_checkpoint(str(location), weights_only=weights_only))

        ranks.all_or_none(read)
        model = checkpoint.pop("state_dict", {})
        of_optimizers = checkpoint.pop("optimizer_states", None)
        if not self._whole_is_for_all:
            checkpoint = ranks.from_first(lambda: checkpoint)
        optimizers = self._optimizers_to_load()
        saved = ranks.from_first(lambda: None if of_optimizers is None else len(of_optimizers))
        if optimizers and saved is not None and saved != len(optimizers):
            raise CheckpointError(
                f"{location}: {saved} optimizers were saved, and this training has {len(optimizers)}: go on with as "
                "many, or load the weights alone",
                uri=str(location),
            )
        take_whole(
            self._wrapped_model,
            optimizers if saved is not None else [],
            model,
            of_optimizers,
            strict=self._strict,
            from_first=not self._whole_is_for_all,
        )
        return checkpoint

    def _remove(self, location: ObjectURI) -> None:
        found = found_at(self._directory(location))
        if found is None or not found.files:
            self.checkpoint_io.remove_checkpoint(str(location))
        elif found.is_ours:
            found.remove()
        else:
            _log.warning("%s is kept: another program wrote what is there", location)

    def _copy_of(self, state: dict[str, Any]) -> Any:
        """A copy in memory, which takes the place of the last save's; that has ended."""
        if self._stager is None:
            self._stager = self._new_stager()
        if isinstance(self._stager, HostStager):
            self._stager.recycle()
        return self._stager.stage(state)

    def _new_stager(self) -> AsyncStager:
        """What copies a state into memory, from which it is saved in the background."""
        return HostStager()

    def _forget_copies(self) -> None:
        stager, self._stager = self._stager, None
        if stager is not None:
            stager.close()

    def _leave_groups(self) -> None:
        """End the groups of this fit; what is saved or loaded after it makes another, on all ranks alike."""
        together, self._together = self._together, None
        if together is not None:
            together.end()

    def _ranks(self) -> RanksTogether:
        if self._together is None or not self._together.is_current:
            self._together = RanksTogether(self._timeout)
        return self._together

    def _directory(self, location: ObjectURI) -> CheckpointDirectory:
        return CheckpointDirectory.at(location, config_for(location, self._config))

    @property
    def _wrapped_model(self) -> torch.nn.Module:
        assert self.model is not None
        return self.model

    @property
    def _strict(self) -> bool:
        assert self.lightning_module is not None
        return self.lightning_module.strict_loading

    def _optimizers_to_load(self) -> list[Any]:
        """Those of a fit: who only tests has none to go on with."""
        assert self.lightning_module is not None
        return list(self.optimizers) if self.lightning_module.trainer.state.fn == _FITTING else []


def _tell_failure(location: ObjectURI, save: Future[Any]) -> None:
    """Log it when it happens; it is raised where the training next asks, if it ever does."""
    if save.exception() is not None:
        _log.error("the save to %s failed: %s", location, save.exception())
