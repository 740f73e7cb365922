"""Measures a client that saves and loads distributed checkpoints, in one of the ranks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from bucketbench.checkpointing.client import measure_job
from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.distributed_job import DistributedCheckpointingJob
from bucketbench.checkpointing.keeping import remove_empty_directories
from bucketbench.checkpointing.party import device_of, make_party
from bucketbench.checkpointing.placed import PlacedCheckpoints, PlacedCheckpointsInBackground
from bucketbench.checkpointing.placement import Placement, own_state
from bucketbench.clients.checkpoint.protocol import Checkpoints
from bucketbench.clients.dcp.protocol import DistributedCheckpointClient
from bucketbench.clients.protocol import Target
from bucketbench.ranks import Ranks
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure_placed"]


def measure_placed(placement: Placement, fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client, in this process and with the other ranks.

    Args:
        placement: which rank has what.
        fields: those of a :class:`DistributedCheckpointingJob`.
        recorder: takes the raw records.
        ranks: which of the job's ranks this process is.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        ConfigurationError: the client cannot be built.
        Exception: whatever the client raises.
    """
    job = DistributedCheckpointingJob.from_json(fields)
    device = device_of(job.backend, int(os.environ.get("LOCAL_RANK", "0")))
    savers = make_party(job.save_ranks, ranks, device=device.type)
    loaders = savers if job.load_ranks == job.save_ranks else make_party(job.load_ranks, ranks, device=device.type)
    saved = own_state(placement, job.state, savers, device)
    loaded = saved if loaders is savers else own_state(placement, job.state, loaders, device)

    def open_checkpoints(client: DistributedCheckpointClient, target: Target) -> Checkpoints:
        arguments: dict[str, Any] = {
            "spec": job.state, "placement": placement, "savers": savers, "loaders": loaders, "loaded": loaded,
        }  # fmt: skip
        kind = getattr(client, "async_checkpointer", None)
        if job.action is Action.ASYNC_SAVE:
            kind = kind or job.async_checkpointer
        if kind is None:
            return PlacedCheckpoints(client.storage(target), ranks, **arguments)
        kind = AsyncCheckpointerType(kind)
        reuse_stager = job.reuse_stager and job.action is Action.ASYNC_SAVE
        return PlacedCheckpointsInBackground(
            client.storage(target), ranks, kind=kind, reuse_stager=reuse_stager, **arguments
        )

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")  # one rank is by itself on purpose
        found = measure_job(
            job,
            recorder,
            ranks,
            state=saved,
            loaded_state=loaded,
            course=job.course,
            open_checkpoints=open_checkpoints,
            details={"torch": torch.__version__, "placement": placement.value, "device": device.type},
        )
    remove_empty_directories(job)
    return found
