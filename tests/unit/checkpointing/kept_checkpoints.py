"""Checkpoints in memory in the place of a client's, and the loop over them: what the tests of the loop share."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch

from bucketbench.checkpointing.client import whole_state
from bucketbench.checkpointing.course import Course
from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.loop import measure_checkpoints
from bucketbench.checkpointing.state import StateSpec
from bucketbench.clients.protocol import Target
from bucketbench.job.description import OPERATIONS_FILE, Component
from bucketbench.ranks import Ranks
from bucketbench.records import Operation
from bucketbench.scenarios.recording import Measurement, Recorder

TENSORS = 3


class Kept:
    """Keeps states in memory, as a client that does what it should."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, torch.Tensor]] = {}
        self.keys: list[str] = []
        self.closed = False

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        self.keys.append(key)
        self.kept[key] = {name: tensor.clone() for name, tensor in state.items()}

    def load(self, key: str) -> Any:
        return {name: tensor.clone() for name, tensor in self.kept[key].items()}

    def remove(self, key: str) -> None:
        del self.kept[key]

    def close(self) -> None:
        self.closed = True


class Background(Kept):
    """Saves in the background; ``failure`` is what becomes of it."""

    failure: Exception | None = None

    def save_async(self, state: dict[str, torch.Tensor], key: str) -> Future[None]:
        super().save(state, key)
        future: Future[None] = Future()
        if self.failure is None:
            future.set_result(None)
        else:
            future.set_exception(self.failure)
        return future


def measured(
    directory: Path, client: Kept, *, course: Course | None = None, **fields: Any
) -> tuple[Measurement, list[Operation]]:
    job = CheckpointingJob(**{
        "client": Component(name="a", target="b.C"), "target": Target(scheme="s3", bucket="b", prefix="p/"),
        "min_measured_s": 1e-9, "admin_url": None, "steps": 2, "save_only_latest": False, "clear_kernel_cache": False,
        "multipart": True, "warmup": True, "local_directory": str(directory / "local"),
        "state": StateSpec(model="tensors", layers=None, tensors=TENSORS, size_bytes=1200, seed=0), **fields,
    })  # fmt: skip
    with Recorder(directory) as recorder:
        found = measure_checkpoints(
            job,
            recorder,
            whole_state(job.state),
            Ranks(),
            open_checkpoints=lambda: client,
            details={},
            course=course or Course(),
        )
    lines = (directory / OPERATIONS_FILE).read_text().splitlines()
    return found, [Operation.from_json(json.loads(line)) for line in lines]
