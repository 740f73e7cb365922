"""A Lightning trainer that saves and loads a sharded model by a strategy: its checkpoints as those of any client."""

from __future__ import annotations

import os
from typing import Any

import torch
from lightning.pytorch import Trainer

from bucketbench.checkpointing.state_holder import be_quiet
from bucketbench.clients.lightning_fsdp.protocol import CopiesToHosts, StrategyClient
from bucketbench.clients.protocol import Target
from bucketbench.errors import ConfigurationError
from bucketbench.ranks import Ranks
from bucketbench.scenarios.lightning_fsdp.sharded_model import ShardedModel

__all__ = ["ShardedCheckpoints", "ShardedCheckpointsInBackground"]


class ShardedCheckpoints:
    """Saves by ``Trainer.save_checkpoint``, and loads and removes by the trainer's strategy, as a resumed fit does.

    Nothing is trained. A checkpoint has the model's weights, of which each rank saves its rows, and what
    Lightning adds.

    Args:
        client: gives the strategy.
        target: where the checkpoints lie.
        ranks: those of the trainer.
        model: what is saved, and what it is loaded into.
    """

    def __init__(self, client: StrategyClient, target: Target, ranks: Ranks, model: ShardedModel) -> None:
        be_quiet()
        self._client = client
        self._target = target
        self._ranks = ranks
        self._root = client.root(target)
        self._model = model
        on_this_host = int(os.environ.get("LOCAL_WORLD_SIZE", ranks.world_size))
        self._trainer = Trainer(
            accelerator="cpu",
            devices=on_this_host,
            num_nodes=ranks.world_size // on_this_host,
            strategy=client.strategy(target, ranks.world_size),
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        self._into: dict[str, torch.Tensor] = {}

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        del state  # the model's own rows
        self._connect(self._model.module)
        self._trainer.save_checkpoint(self._root + key)

    def make_room(self) -> None:
        module, self._into = self._model.emptied()
        self._connect(module)

    def load(self, key: str) -> dict[str, torch.Tensor]:
        self._trainer.strategy.load_checkpoint(self._root + key, weights_only=True)
        return self._into

    def is_saved(self, key: str) -> bool:
        if not hasattr(self._client, "is_saved"):
            raise ConfigurationError(
                f"{type(self._client).__name__} has no is_saved(target, path), which tells a job that saves or loads "
                "alone whether a checkpoint is there: add it to the client, or take action=save_and_load"
            )
        return bool(self._client.is_saved(self._target, self._root + key))

    def save_for_loads(self, state: dict[str, torch.Tensor], key: str) -> None:
        client = self._client
        if not isinstance(client, CopiesToHosts):
            self.save(state, key)
            return
        in_bucket = ShardedCheckpoints(client.in_bucket, self._target, self._ranks, self._model)
        in_bucket.save(state, key)
        self._ranks.wait_for_all()
        client.copy_here(self._target, key)
        self._ranks.wait_for_all()
        in_bucket.remove(key)
        in_bucket.close()

    def remove(self, key: str) -> None:
        self._trainer.strategy.remove_checkpoint(self._root + key)

    def close(self) -> None:
        self._client.close()

    def _connect(self, module: Any) -> None:
        module.trainer = self._trainer
        self._trainer.strategy.connect(module)


class ShardedCheckpointsInBackground(ShardedCheckpoints):
    """The same by a strategy whose ``save_checkpoint`` returns before the checkpoint is durable."""

    def save_async(self, state: dict[str, torch.Tensor], key: str) -> _Durable:
        self.save(state, key)
        return _Durable(self._trainer.strategy)

    def save_for_loads(self, state: dict[str, torch.Tensor], key: str) -> None:
        self.save_async(state, key).result()


class _Durable:
    """What the end of a fit waits for."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def result(self) -> None:
        self._strategy.wait()
