"""Measures a client that saves and loads the checkpoints of a Lightning trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning
import torch

from bucketbench.checkpointing.client import measure_client
from bucketbench.clients.checkpoint.protocol import Checkpoints
from bucketbench.clients.lightning.protocol import LightningClient
from bucketbench.clients.protocol import Target
from bucketbench.ranks import Ranks
from bucketbench.scenarios.lightning_checkpointing.trainer import TrainerCheckpoints, TrainerCheckpointsInBackground
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure"]


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client, in this process.

    Args:
        fields: those of a :class:`bucketbench.checkpointing.job.CheckpointingJob`.
        recorder: takes the raw records.
        ranks: the one rank, since a checkpoint is saved by one process.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        ConfigurationError: the client cannot be built, or cannot do without parts where the job asks for that.
        Exception: whatever the client raises.
    """
    return measure_client(
        fields,
        recorder,
        ranks,
        open_checkpoints=trainer_checkpoints,
        details={"torch": torch.__version__, "lightning": lightning.__version__},
    )


def trainer_checkpoints(client: LightningClient, target: Target) -> Checkpoints:
    """The checkpoints of a trainer that has the client's ``CheckpointIO``."""
    in_background = getattr(client, "saves_in_background", False)
    is_local = getattr(client, "saves_local_files", False)
    kind = TrainerCheckpointsInBackground if in_background else TrainerCheckpoints
    return kind(client.checkpoint_io(target), f"{target.local_directory}/" if is_local else target.uri)
