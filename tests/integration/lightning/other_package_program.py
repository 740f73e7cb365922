"""Trains with the package pytorch_lightning, whose classes are not those of lightning, and resumes.

Usage: python other_package_program.py DIRECTORY
"""

from __future__ import annotations

import sys

import pytorch_lightning
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.demos.boring_classes import BoringModel

from torchbucket.lightning import AsyncBucketCheckpointIO, BucketModelCheckpoint

assert "lightning" not in sys.modules
assert issubclass(BucketModelCheckpoint, ModelCheckpoint)
for steps in (2, 4):
    trainer = pytorch_lightning.Trainer(
        plugins=[AsyncBucketCheckpointIO()],
        callbacks=[BucketModelCheckpoint(dirpath=sys.argv[1], every_n_train_steps=2, save_last=True)],
        max_steps=steps,
        limit_val_batches=0,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(BoringModel(), ckpt_path="last")
    assert trainer.ckpt_path == (None if steps == 2 else f"{sys.argv[1]}/last.ckpt"), trainer.ckpt_path
    assert trainer.global_step == steps
