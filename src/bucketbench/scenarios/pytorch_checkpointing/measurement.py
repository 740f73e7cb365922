"""Measures a client that saves and loads states as ``torch.save`` and ``torch.load`` do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.loop import measure_checkpoints
from bucketbench.clients.checkpoint.protocol import CheckpointClient, Checkpoints
from bucketbench.components import build
from bucketbench.errors import ConfigurationError
from bucketbench.ranks import Ranks
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure"]


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client, in this process.

    Args:
        fields: those of a :class:`CheckpointingJob`.
        recorder: takes the raw records.
        ranks: the one rank, since a checkpoint is saved by one process.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        ConfigurationError: the client cannot be built, or cannot do without parts where the job asks for that.
        Exception: whatever the client raises.
    """
    del ranks
    job = CheckpointingJob.from_json(fields)
    parent = Path(job.local_parent)
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="checkpoints-", dir=parent) as directory:
        target = replace(job.target, local_directory=directory)

        def open_checkpoints() -> Checkpoints:
            return _built(job).checkpoints(target)

        return measure_checkpoints(
            job, recorder, open_checkpoints=open_checkpoints, details={"torch": torch.__version__}
        )


def _built(job: CheckpointingJob) -> CheckpointClient:
    """The client, told to send no parts where the job asks for that."""
    options = job.client.options if job.multipart else {**job.client.options, "multipart": False}
    try:
        client: CheckpointClient = build(replace(job.client, options=options))
    except ConfigurationError as error:
        if job.multipart:
            raise
        raise ConfigurationError(
            f"disable_multipart=true asks for a client with the option multipart: {error}"
        ) from error
    return client
