"""The client that saves to the disk: what it says is saved is there after a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from bucketbench.clients.checkpoint.disk import Disk
from bucketbench.clients.protocol import Target


def test_the_file_and_then_its_name_are_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, bool]] = []
    path = tmp_path / "runs" / "step-0.pt"

    def sync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, path.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    checkpoints = Disk().checkpoints(Target(scheme="s3", bucket="b", prefix="", local_directory=str(tmp_path)))
    checkpoints.save({"weight": torch.ones(3)}, "runs/step-0.pt")
    assert synced == [(path.stat().st_ino, False), (path.parent.stat().st_ino, True)]
