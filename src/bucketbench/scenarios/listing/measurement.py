"""Measures a client that lists a prefix: how long until every name is there, and whether each is, once.

What is timed:

- *epoch*, *fetch*: one listing, from the call of the client until its last name was taken. Names are taken one by one
  and compared with what is there as they come, which costs about 0.3 µs a name for each client alike.
- *wait*: from that call until the first name.

The client is built, and lists a prefix of ten names, before anything is measured: connections are made then, and code
is loaded. torch is loaded before that, also for clients that do without: what lists names for a training has it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import torch

from bucketbench.components import build
from bucketbench.ranks import Ranks
from bucketbench.records import OperationKind
from bucketbench.scenarios.listing.job import ListingJob
from bucketbench.scenarios.listing.schema import MAX_PASSES
from bucketbench.scenarios.listing.tally import NamesTally
from bucketbench.scenarios.recording import WARMUP, Measurement, Recorder, operation
from bucketbench.scenarios.server import ServerDifference

__all__ = ["measure"]

_TAKEN_TOGETHER: Final = 2_000  # names between two words of progress; a page has 1,000 to 5,000


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client, in this process.

    Args:
        fields: those of a :class:`ListingJob`.
        recorder: takes the raw records.
        ranks: the one rank, since a listing is one process's work.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        Exception: whatever the client raises.
    """
    del ranks
    job = ListingJob.from_json(fields)
    started_s = time.monotonic()
    client = build(job.client)
    recorder.add([operation(OperationKind.INDEX, WARMUP, started_s, time.monotonic())])
    if job.warmup_prefix is not None:
        recorder.progress(stage="warm-up", done=0, total=job.names.count, force=True)
        for _ in client.names(replace(job.target, prefix=job.warmup_prefix)):
            pass
    tally = NamesTally(job.names.objects(job.target.prefix))
    measured_s = 0.0
    with ServerDifference(job.admin_url) as server:
        for number in range(MAX_PASSES if job.passes is None else job.passes):
            measured_s += _pass(job, client, number, tally, recorder)
            # What fails at once would take passes without end to fill the time.
            if job.passes is None and (tally.found_wrong or measured_s >= job.min_measured_s):
                break
    return Measurement(verification=tally.counts(), server=server.counts, details={"torch": torch.__version__})


def _pass(job: ListingJob, client: Any, number: int, tally: NamesTally, recorder: Recorder) -> float:
    """List once, record it, and return how many seconds that took."""
    total = len(tally)
    recorder.mark_edge()
    started_s = time.monotonic()
    found = client.names(job.target)
    names = iter(found)
    tally.take(islice(names, 1))
    first_s = time.monotonic()
    while tally.take(islice(names, _TAKEN_TOGETHER)):
        recorder.progress(stage=f"listing {number + 1}", done=tally.taken, total=total)
    ended_s = time.monotonic()
    # What the client returned is still there, so that the sample has the memory that it takes.
    recorder.mark_edge()
    del found, names
    right, wrong = tally.close_pass()
    recorder.add(
        [
            operation(OperationKind.WAIT, number, started_s, first_s),
            operation(OperationKind.FETCH, number, started_s, ended_s, samples=right, errors=wrong),
            operation(OperationKind.EPOCH, number, started_s, ended_s),
        ]
    )
    recorder.flush()
    return ended_s - started_s
