"""A Lightning trainer that saves and loads a state: its checkpoints as those of any other client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.plugins.io import CheckpointIO

from bucketbench.checkpointing.state_holder import StateHolder, be_quiet

__all__ = ["TrainerCheckpoints", "TrainerCheckpointsInBackground"]

_MODEL: Final = "model."


class TrainerCheckpoints:
    """Saves by ``Trainer.save_checkpoint``, and loads and removes by the trainer's strategy, as a resumed fit does.

    Nothing is trained: the module's parameters are the tensors of the state, in its own memory, so that a checkpoint
    has the state's weights and what Lightning adds to them: the loops' progress, the callbacks' states, versions.

    Args:
        checkpoint_io: the plugin, None for the trainer's own default.
        root: what the paths of the checkpoints begin with, such as ``s3://bucket/runs/``.
    """

    def __init__(self, checkpoint_io: CheckpointIO | None, root: str) -> None:
        be_quiet()
        self._trainer = Trainer(
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            plugins=[] if checkpoint_io is None else [checkpoint_io],
        )
        self._root = root
        self._state: Mapping[str, torch.Tensor] | None = None

    def save(self, state: Mapping[str, torch.Tensor], key: str) -> None:
        if state is not self._state:
            self._trainer.strategy.connect(StateHolder(state))
            self._state = state
        self._trainer.save_checkpoint(self._root + key)

    def load(self, key: str) -> Any:
        found: Any = self._trainer.strategy.load_checkpoint(self._root + key, weights_only=True)
        if not isinstance(found, Mapping) or not isinstance(found.get("state_dict"), Mapping):
            return found  # which is compared with the state, and is wrong
        return {name.removeprefix(_MODEL): value for name, value in found["state_dict"].items()}

    def remove(self, key: str) -> None:
        self._trainer.strategy.remove_checkpoint(self._root + key)

    def close(self) -> None:
        self._trainer.strategy.checkpoint_io.teardown()


class TrainerCheckpointsInBackground(TrainerCheckpoints):
    """The same with a ``CheckpointIO`` whose ``save_checkpoint`` returns before the checkpoint is durable."""

    def save_async(self, state: Mapping[str, torch.Tensor], key: str) -> _Durable:
        super().save(state, key)
        return _Durable(self._trainer.strategy.checkpoint_io)


class _Durable:
    """What the end of a fit waits for: a ``CheckpointIO`` is torn down once all is saved, or raises."""

    def __init__(self, checkpoint_io: CheckpointIO) -> None:
        self._checkpoint_io = checkpoint_io

    def result(self) -> None:
        self._checkpoint_io.teardown()
