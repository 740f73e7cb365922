"""Trains with Lightning as a user would: a data module, two ranks, a checkpoint in the middle of an epoch.

Usage: python lightning_program.py KIND URI LOG STRATEGY

STRATEGY is of two ranks, or `auto` for one. Each rank writes what it was given to LOG.<rank>: a line of epoch and
sample numbers a batch. A single rank trains once more, is stopped after each of two numbers of steps with a
checkpoint, and goes on from it with all objects made anew, in LOG.<steps>.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import warnings
from pathlib import Path

import lightning
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import IterableDataset, MapDataset, ReadAheadBatchSampler, ShardedSampler


def number_of(reader) -> torch.Tensor:
    return torch.tensor([float(reader.key.rpartition("/")[2])])


class Model(lightning.LightningModule):
    def __init__(self, log: str) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.path = log

    def training_step(self, batch, index):
        with Path(f"{self.path}.rank{self.global_rank}").open("a") as file:
            print(json.dumps([self.current_epoch, [int(number) for number in batch.flatten()]]), file=file)
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-9)


class SizedLoader(StatefulDataLoader):
    """Of a loader without a length Lightning takes one batch ahead, which a checkpoint then counts as trained on."""

    def __len__(self) -> int:
        return self.dataset.batches_in_epoch(batch_size=self.batch_size, num_workers=self.num_workers)


class Data(lightning.LightningDataModule):
    def __init__(self, kind: str, uri: str) -> None:
        super().__init__()
        self.kind, self.uri = kind, uri

    def train_dataloader(self):
        if self.kind == "stream":
            stream = IterableDataset.from_prefix(self.uri, transform=number_of, shuffle=True, even=True)
            return SizedLoader(stream, batch_size=3, num_workers=2)
        dataset = MapDataset.from_prefix(self.uri, transform=number_of)
        if self.kind == "read_ahead":  # over several ranks Lightning puts a sampler of its own into it
            batches = ReadAheadBatchSampler(ShardedSampler(dataset), batch_size=3, ahead=4)
            return StatefulDataLoader(dataset, batch_sampler=batches, num_workers=2)
        return StatefulDataLoader(dataset, batch_size=3, num_workers=2, sampler=ShardedSampler(dataset))


class StoppedError(Exception):
    """What ends a training in its middle."""


class StopAfter(lightning.Callback):
    def __init__(self, steps: int, checkpoint: str) -> None:
        self.steps, self.checkpoint = steps, checkpoint

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step == self.steps:
            trainer.save_checkpoint(self.checkpoint)
            raise StoppedError


def train(kind: str, uri: str, log: str, strategy: str, *, stop: StopAfter | None = None, resume: str | None = None):
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=1 if strategy == "auto" else 2,
        strategy=strategy,
        callbacks=[stop] if stop else [],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Model(log), datamodule=Data(kind, uri), ckpt_path=resume)


if __name__ == "__main__":
    kind, uri, log, strategy = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    train(kind, uri, log, strategy)
    if strategy == "auto":
        for steps in (5, 10):
            checkpoint = f"{log}.ckpt"
            with contextlib.suppress(StoppedError):
                train(kind, uri, f"{log}.{steps}", strategy, stop=StopAfter(steps, checkpoint))
            train(kind, uri, f"{log}.{steps}", strategy, resume=checkpoint)
