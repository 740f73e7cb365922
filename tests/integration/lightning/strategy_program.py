"""One rank of a training whose checkpoints a strategy keeps in a bucket.

Usage: python strategy_program.py RANK WORLD_SIZE RENDEZVOUS_FILE ENDPOINT URI KIND ACTION...

KIND is a strategy's name below, with `-async`, `-full` or `-own` behind it for its settings; what ACTION, a method of
`Rank`, finds is printed as JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.data import DataLoader, Dataset

from torchbucket import StoreConfig
from torchbucket.dcp import HostStager, latest
from torchbucket.fsspec import register
from torchbucket.lightning import BucketFSDPStrategy, BucketModelCheckpoint, BucketModelParallelStrategy

STEPS, EVERY, KILLED_AT = 8, 2, 5
WIDTH = 6


class OnHost(FSDPStrategy):
    """Wraps the model for the host: Lightning does it for a GPU alone, and its trainer refuses the bare class."""

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        device = torch.device("cpu")
        return FullyShardedDataParallel(
            model, device_id=device, sharding_strategy=self.sharding_strategy, **self.kwargs
        )


class OwnFSDPStrategy(OnHost):
    """Lightning's."""


class OurFSDPStrategy(BucketFSDPStrategy, OnHost):
    """Ours."""


class Numbers(Dataset[torch.Tensor]):
    """A rank's own, the same at each step: Lightning begins a plain loader anew where an epoch goes on."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))


class Model(lightning.LightningModule):
    """Two layers, the second of which two ranks cannot share out evenly."""

    def __init__(self, seed: int, killed_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(WIDTH, 16)
        self.second = torch.nn.Linear(16, 3)
        self.killed_at = killed_at
        self.pinned = False
        self.losses: dict[int, str] = {}

    def configure_model(self) -> None:
        if isinstance(self.trainer.strategy, ModelParallelStrategy) and not hasattr(self.first, "unshard"):
            mesh = self.device_mesh["data_parallel"]
            for layer in (self.first, self.second):
                fully_shard(layer, mesh=mesh)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if self.global_step == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = self.second(torch.relu(self.first(batch))).pow(2).mean()
        self.losses[self.global_step] = loss.item().hex()
        return loss

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)}

    def on_train_end(self) -> None:
        stager = getattr(self.trainer.strategy, "_stager", None)
        self.pinned = isinstance(stager, HostStager) and torch.cuda.is_available() and stager._memory.is_pinned()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["note"] = "of the user's own"

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        assert checkpoint["note"] == "of the user's own"


class Rank:
    """What one rank does."""

    def __init__(self, uri: str, config: StoreConfig, kind: str, world_size: int) -> None:
        self.uri = uri
        self.config = config
        self.kind = kind
        self.world_size = world_size

    def strategy(self) -> Any:
        name, *settings = self.kind.split("-")
        ours: dict[str, Any] = {}
        if "own" not in settings:
            ours = {"config": self.config, "use_async": "async" in settings}
        if name == "fsdp":
            full = "full" if "full" in settings else "sharded"
            kind: Any = OwnFSDPStrategy if "own" in settings else OurFSDPStrategy
            return kind(state_dict_type=full, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}), **ours)
        kind = ModelParallelStrategy if "own" in settings else BucketModelParallelStrategy
        return kind(
            data_parallel_size=self.world_size,
            tensor_parallel_size=1,
            save_distributed_checkpoint="full" not in settings,
            **ours,
        )

    def trainer(self, steps: int = STEPS, *callbacks: Any) -> lightning.Trainer:
        return lightning.Trainer(
            accelerator="gpu" if torch.cuda.is_available() else "cpu",
            devices=self.world_size,
            strategy=self.strategy(),
            max_steps=steps,
            callbacks=list(callbacks),
            enable_checkpointing=bool(callbacks),
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )

    def saving(self) -> BucketModelCheckpoint:
        return BucketModelCheckpoint(
            dirpath=self.uri, filename="{step}", every_n_train_steps=EVERY, save_top_k=1, save_on_train_epoch_end=False
        )

    def train_until_killed(self) -> None:
        self.trainer(STEPS, self.saving()).fit(Model(1, killed_at=KILLED_AT), loader())

    def train(self) -> dict[str, Any]:
        """Trains from the beginning with checkpoints; tells whether they were copied into pinned memory."""
        model = Model(1)
        self.trainer(STEPS, self.saving()).fit(model, loader())
        return {"pinned": model.pinned}

    def resume(self) -> dict[str, Any]:
        """Goes on from the newest checkpoint, and trains from the beginning without any."""
        newest = latest(self.uri, config=self.config)
        model = Model(2)
        trainer = self.trainer(STEPS, self.saving())
        trainer.fit(model, loader(), ckpt_path=newest)
        whole = Model(1)
        self.trainer().fit(whole, loader())
        return {"from": newest, "resumed": model.losses, "whole": whole.losses, "named": str(trainer.ckpt_path)}

    def resume_from_last(self) -> dict[str, Any]:
        model = Model(2)
        saving = BucketModelCheckpoint(dirpath=self.uri, every_n_train_steps=EVERY, save_last="link")
        self.trainer(EVERY, saving).fit(Model(1), loader())
        trainer = self.trainer(EVERY + 1, saving)
        trainer.fit(model, loader(), ckpt_path="last")
        return {"from": str(trainer.ckpt_path), "resumed": model.losses}

    def save(self) -> str:
        """Trains two steps and saves; a digest of all that is to be found again."""
        trainer = self.trainer(2)
        trainer.fit(Model(1), loader())
        trainer.save_checkpoint(self.uri)
        if hasattr(trainer.strategy, "wait"):
            trainer.strategy.wait()
        return digest(trainer)

    def load(self) -> str:
        """Loads into another model, as the beginning of a fit that has nothing left to do."""
        trainer = self.trainer(2)
        trainer.fit(Model(2), loader(), ckpt_path=self.uri)
        assert trainer.global_step == 2
        return digest(trainer)

    def cross(self) -> dict[str, str]:
        """Ours saves and Lightning's own loads, and the other way round."""
        found = {}
        kind, uri = self.kind, self.uri
        for saver, loader in ((kind, f"{kind}-own"), (f"{kind}-own", kind)):
            self.uri = f"{uri}/{saver}"
            self.kind = saver
            found[f"{saver} saves"] = self.save()
            self.kind = loader
            found[f"{loader} loads"] = self.load()
        return found

    def test(self) -> list[str]:
        """What of a checkpoint a test reads: the model alone."""
        model = Model(2)
        model.test_step = model.training_step  # type: ignore[method-assign]
        trainer = self.trainer(2)
        trainer.test(model, loader(), ckpt_path=self.uri, verbose=False)
        return [type(optimizer).__name__ for optimizer in trainer.strategy.optimizers]

    def save_where_the_rest_cannot_be_pickled(self) -> None:
        trainer = self.trainer(2)
        model = Model(1)
        model.on_save_checkpoint = lambda checkpoint: checkpoint.update(note=lambda: None)  # type: ignore[method-assign]
        trainer.fit(model, loader())
        trainer.save_checkpoint(f"{self.uri}/unpicklable")

    def save_where_one_has_no_memory(self) -> None:
        trainer = self.trainer(2)
        trainer.fit(Model(1), loader())
        if dist.get_rank() == 1:
            trainer.strategy._new_stager = no_memory
        trainer.save_checkpoint(f"{self.uri}/uncopied")

    def save_and_be_told_at_the_next(self) -> None:
        trainer = self.trainer(2)
        trainer.fit(Model(1), loader())
        trainer.save_checkpoint(f"{self.uri}/step=2")
        trainer.save_checkpoint(f"{self.uri}/step=3")

    def save_after_a_removal_that_failed(self) -> None:
        trainer = self.trainer(2)
        trainer.fit(Model(1), loader())
        trainer.save_checkpoint(f"{self.uri}/kept")
        trainer.strategy.wait()
        trainer.strategy.remove_checkpoint(f"{self.uri}/kept")
        trainer.save_checkpoint(f"{self.uri}/after")


def no_memory() -> Any:
    raise MemoryError("for the copy")


def loader() -> DataLoader[torch.Tensor]:
    return DataLoader(Numbers(), batch_size=2)


def digest(trainer: lightning.Trainer) -> str:
    """Of the whole state of model and optimizer, to the last bit; the same on every rank and of any number of them."""
    options = StateDictOptions(full_state_dict=True)
    model: Any = trainer.strategy.model
    states = get_state_dict(model, trainer.optimizers, options=options)
    flat: list[str] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value):
                add(f"{name}.{key}", value[key])
        elif isinstance(value, torch.Tensor):
            flat.append(f"{name} {value.dtype} {list(value.shape)} {value.cpu().numpy().tobytes().hex()}")
        else:
            flat.append(f"{name} {json.dumps(value)}")  # where a tuple is a list, which PyTorch may make of one

    for name, state in zip(("model", "optimizer"), states, strict=True):
        add(name, state)
    return hashlib.sha256("\n".join(flat).encode()).hexdigest()


def main() -> None:
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    rendezvous, endpoint, uri, kind, *action = sys.argv[3:]
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0")
    dist.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=60),
    )
    config = StoreConfig(endpoint=endpoint, anonymous=True)
    register(config)
    one = Rank(uri, config, kind, world_size)
    result = {}
    for name in action:
        act: Callable[[], Any] = getattr(one, name)
        try:
            result[name] = act()
        except (Exception, CheckpointException) as error:  # noqa: BLE001  # it is told
            causes = getattr(error, "failures", {})
            result[name] = {
                "error": type(error).__name__,
                "text": str(error),
                "causes": {str(failed): type(cause[0]).__name__ for failed, cause in causes.items()},
            }
    print(json.dumps(result), flush=True)
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
    os._exit(0)  # gloo's threads can outlast their group, and abort an interpreter that ends


if __name__ == "__main__":
    main()
