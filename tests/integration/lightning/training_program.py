"""Trains Lightning's demo Transformer on the licence's text, with its checkpoints in a bucket.

Usage: python training_program.py URI ENDPOINT killed|resumed DIRECTORY

`killed` kills itself in the middle of the second epoch. `resumed` goes on from the last checkpoint, then trains from
the beginning without a bucket, and prints the losses of both.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.demos.transformer import LightningTransformer, WikiText2
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import StoreConfig
from torchbucket.fsspec import register
from torchbucket.lightning import AsyncBucketCheckpointIO, BucketModelCheckpoint

TEXT = Path(__file__).parents[3] / "LICENSE"
EPOCHS, BATCHES, EVERY, KILLED_AT = 2, 8, 3, 13


class Text(WikiText2):
    """The demo's data set, over a file that is there."""

    def __init__(self, path: Path, directory: Path) -> None:
        (directory / "wikitext-2.txt").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        super().__init__(directory, block_size=12, download=False)

    def __len__(self) -> int:
        return BATCHES


class Model(LightningTransformer):
    """Writes its losses down; dropout goes on where it was, which Lightning by itself does not see to."""

    def __init__(self, vocabulary: int, kills: bool) -> None:
        super().__init__(vocab_size=vocabulary)
        self.kills = kills
        self.losses: dict[int, str] = {}
        self.randomness: torch.Tensor | None = None

    def prepare_data(self) -> None:
        """There is nothing to download."""

    def on_train_batch_start(self, batch: object, index: int) -> None:
        if self.randomness is not None:
            torch.set_rng_state(self.randomness)
            self.randomness = None
        if self.kills and self.global_step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        loss = super().training_step(batch, index)
        self.losses[self.global_step] = loss.item().hex()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    def on_save_checkpoint(self, checkpoint: dict[str, object]) -> None:
        checkpoint["randomness"] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint: dict[str, torch.Tensor]) -> None:
        self.randomness = checkpoint["randomness"]


def train(uri: str | None, endpoint: str, directory: Path, *, kills: bool = False) -> dict[int, str]:
    """The losses by step, each to the last bit."""
    lightning.seed_everything(7, verbose=False)
    data = Text(TEXT, directory)
    model = Model(data.vocab_size, kills)
    shuffle = torch.Generator().manual_seed(5)
    loader = StatefulDataLoader(data, batch_size=1, shuffle=True, generator=shuffle)
    saving = BucketModelCheckpoint(dirpath=uri, every_n_train_steps=EVERY, save_last=True)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        plugins=[AsyncBucketCheckpointIO(StoreConfig(endpoint=endpoint, anonymous=True))] if uri else [],
        callbacks=[saving] if uri else [],
        enable_checkpointing=uri is not None,
        logger=False,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader, ckpt_path="last" if uri else None)
    return model.losses


def main() -> None:
    uri, endpoint, mode, directory = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    register(StoreConfig(endpoint=endpoint, anonymous=True))
    found = {"resumed": train(uri, endpoint, Path(directory), kills=mode == "killed")}
    found["whole"] = train(None, endpoint, Path(directory))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
