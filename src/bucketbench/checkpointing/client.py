"""Builds the client of a job that saves and loads checkpoints, and measures it where its checkpoints lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.loop import OwnState, measure_checkpoints
from bucketbench.checkpointing.state import StateSpec, make_state, state_bytes
from bucketbench.clients.checkpoint.protocol import Checkpoints
from bucketbench.clients.protocol import Target
from bucketbench.components import build
from bucketbench.errors import ConfigurationError
from bucketbench.ranks import Ranks
from bucketbench.scenarios.client_statement import told_by
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure_client", "measure_job", "whole_state"]


def whole_state(spec: StateSpec) -> OwnState:
    """All of a state, as a process has it that is by itself."""
    tensors = make_state(spec)
    return OwnState(tensors=tensors, counted_bytes=state_bytes(tensors))


def measure_client(
    fields: Mapping[str, Any],
    recorder: Recorder,
    ranks: Ranks,
    *,
    open_checkpoints: Callable[[Any, Target], Checkpoints],
    details: dict[str, str],
) -> Measurement:
    """Build a client, then warm up, measure and check it, in this process, which has all of the state.

    Args:
        fields: those of a :class:`CheckpointingJob`.
        recorder: takes the raw records.
        ranks: those that save and load together.
        open_checkpoints: gives the checkpoints of a client at a target, whose local directory is empty.
        details: how it is measured, for the results.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        ConfigurationError: the client cannot be built, or cannot do without parts where the job asks for that.
        Exception: whatever the client raises.
    """
    job = CheckpointingJob.from_json(fields)
    state = whole_state(job.state)
    return measure_job(job, recorder, ranks, state=state, open_checkpoints=open_checkpoints, details=details)


def measure_job(
    job: CheckpointingJob,
    recorder: Recorder,
    ranks: Ranks,
    *,
    state: OwnState,
    open_checkpoints: Callable[[Any, Target], Checkpoints],
    details: dict[str, str],
    **course: Any,
) -> Measurement:
    """The same for a job of which this rank has some of the state.

    Args:
        job: what is saved, and how often.
        recorder: as of :func:`measure_client`.
        ranks: likewise.
        state: what of it is this rank's.
        open_checkpoints: as of :func:`measure_client`; the local directory has what earlier jobs have left.
        details: likewise.
        course: further arguments of :func:`bucketbench.checkpointing.loop.measure_checkpoints`.
    """
    Path(job.local_directory).mkdir(parents=True, exist_ok=True)
    target = replace(job.target, local_directory=job.local_directory)
    told = dict(details)

    def opened() -> Checkpoints:
        client = _built(job)
        told.update(told_by(client))
        return open_checkpoints(client, target)

    return measure_checkpoints(
        job,
        recorder,
        state,
        ranks,
        open_checkpoints=opened,
        details=told,
        **course,
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
