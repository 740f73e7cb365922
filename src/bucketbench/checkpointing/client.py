"""Builds the client of a job that saves and loads checkpoints, and measures it where its checkpoints lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.loop import measure_checkpoints
from bucketbench.clients.checkpoint.protocol import Checkpoints
from bucketbench.clients.protocol import Target
from bucketbench.components import build
from bucketbench.errors import ConfigurationError
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure_client"]


def measure_client(
    fields: Mapping[str, Any],
    recorder: Recorder,
    *,
    open_checkpoints: Callable[[Any, Target], Checkpoints],
    details: dict[str, str],
) -> Measurement:
    """Build a client, then warm up, measure and check it, in this process.

    Args:
        fields: those of a :class:`CheckpointingJob`.
        recorder: takes the raw records.
        open_checkpoints: gives the checkpoints of a client at a target, whose local directory is empty.
        details: how it is measured, for the results.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        ConfigurationError: the client cannot be built, or cannot do without parts where the job asks for that.
        Exception: whatever the client raises.
    """
    job = CheckpointingJob.from_json(fields)
    Path(job.local_directory).mkdir(parents=True)
    target = replace(job.target, local_directory=job.local_directory)
    return measure_checkpoints(
        job, recorder, open_checkpoints=lambda: open_checkpoints(_built(job), target), details=details
    )


def _built(job: CheckpointingJob) -> Any:
    """The client, told to send no parts where the job asks for that."""
    if job.multipart:
        return build(job.client)
    try:
        return build(replace(job.client, options={**job.client.options, "multipart": False}))
    except ConfigurationError as error:
        build(job.client)  # raises what is wrong with it in any case
        raise ConfigurationError(
            f"disable_multipart=true asks for a client with the option multipart: {error}"
        ) from error
