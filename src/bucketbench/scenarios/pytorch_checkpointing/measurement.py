"""Measures a client that saves and loads states as ``torch.save`` and ``torch.load`` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from bucketbench.checkpointing.client import measure_client
from bucketbench.clients.checkpoint.protocol import CheckpointClient, Checkpoints
from bucketbench.clients.protocol import Target
from bucketbench.ranks import Ranks
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
    return measure_client(fields, recorder, ranks, open_checkpoints=_opened, details={"torch": torch.__version__})


def _opened(client: CheckpointClient, target: Target) -> Checkpoints:
    return client.checkpoints(target)
