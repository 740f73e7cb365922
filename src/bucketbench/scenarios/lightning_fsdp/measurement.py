"""Measures a client that saves and loads the checkpoints of a sharded Lightning training, in one of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning
import torch

from bucketbench.checkpointing.client import measure_job
from bucketbench.checkpointing.keeping import KeepingJob, remove_empty_directories
from bucketbench.checkpointing.loop import OwnState
from bucketbench.clients.checkpoint.protocol import Checkpoints
from bucketbench.clients.lightning_fsdp.protocol import StrategyClient
from bucketbench.clients.protocol import Target
from bucketbench.ranks import Ranks
from bucketbench.scenarios.lightning_fsdp.sharded_model import ShardedModel
from bucketbench.scenarios.lightning_fsdp.trainer import ShardedCheckpoints, ShardedCheckpointsInBackground
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure", "open_checkpoints"]


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client, in this process and with the other ranks.

    Args:
        fields: those of a :class:`bucketbench.checkpointing.keeping.KeepingJob`.
        recorder: takes the raw records.
        ranks: which of the job's ranks this process is.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        ConfigurationError: the client cannot be built.
        Exception: whatever the client raises.
    """
    job = KeepingJob.from_json(fields)
    model = ShardedModel(job.state)
    found = measure_job(
        job,
        recorder,
        ranks,
        state=OwnState(tensors=model.own, counted_bytes=model.own_bytes),
        course=job.course,
        open_checkpoints=lambda client, target: open_checkpoints(client, target, ranks, model),
        details={"torch": torch.__version__, "lightning": lightning.__version__, "sharding": "fully_shard"},
    )
    remove_empty_directories(job)
    return found


def open_checkpoints(client: StrategyClient, target: Target, ranks: Ranks, model: ShardedModel) -> Checkpoints:
    """The checkpoints of a trainer that has the client's strategy."""
    in_background = getattr(client, "saves_in_background", False)
    kind = ShardedCheckpointsInBackground if in_background else ShardedCheckpoints
    return kind(client, target, ranks, model)
