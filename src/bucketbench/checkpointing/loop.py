"""Saves a state and loads it again, step by step, and records what that took.

What is timed:

- *save*: from the call of the client until the checkpoint is durable; *stage*: until the training could go on, which is
  the same for a client that saves in the foreground and is not recorded then.
- *copy*: a copy of the state from memory to memory, beside each *stage*, which takes no less.
- *load*: from the call of the client until it has returned the state.

Each step changes every tensor, saves, loads, compares every byte and removes the checkpoint; only the save and the load
are measured. A usage sample is taken right before and right after each, and the kernel is asked for the highest memory
in between, since a save may be over before the next sample.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any, Final

from bucketbench.checkpointing.comparison import StateComparison
from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.kernel_cache import clear_kernel_cache
from bucketbench.checkpointing.state import make_state, mark_state, state_bytes, time_copy
from bucketbench.clients.checkpoint.protocol import Checkpoints, SavesInBackground
from bucketbench.records import OperationKind
from bucketbench.scenarios.recording import WARMUP, Measurement, Recorder, operation
from bucketbench.scenarios.server import ServerDifference
from bucketbench.statistics import ServerCounts
from bucketbench.telemetry.peak_memory import forget_peak, give_back_free_memory, peak_rss_bytes, rss_bytes

__all__ = ["measure_checkpoints"]

_LATEST: Final = "bucketbench-latest.pt"
_AUTO_STEPS: Final = 500  # at most, whatever they take: what surrounds a step takes another tenth of a second


def measure_checkpoints(
    job: CheckpointingJob, recorder: Recorder, *, open_checkpoints: Callable[[], Checkpoints], details: dict[str, str]
) -> Measurement:
    """Make the state, warm up, measure and check one client, in this process.

    Args:
        job: what is saved, and how often.
        recorder: takes the raw records.
        open_checkpoints: builds the client; it is called when the state is there.
        details: how it was measured, for the results.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        Exception: whatever the client raises.
    """
    state = make_state(job.state)
    with _modules_uncollected():
        return _measured(job, recorder, state, open_checkpoints=open_checkpoints, details=details)


@contextmanager
def _modules_uncollected() -> Iterator[None]:
    """A block in which collecting garbage passes over what is there already, torch's objects for the most part.

    The memory of each step is given back before the next one, and a look at them all takes a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _measured(
    job: CheckpointingJob,
    recorder: Recorder,
    state: dict[str, Any],
    *,
    open_checkpoints: Callable[[], Checkpoints],
    details: dict[str, str],
) -> Measurement:
    recorder.mark_edge()
    bare_bytes = rss_bytes() if forget_peak() else None
    started_s = time.monotonic()
    checkpoints = open_checkpoints()
    recorder.add([operation(OperationKind.INDEX, WARMUP, started_s, time.monotonic())])
    steps = _Steps(job, recorder, checkpoints, state, bare_bytes)
    if job.warmup:
        steps.take(WARMUP)
    measured_s = 0.0
    for step in range(_AUTO_STEPS if job.steps is None else job.steps):
        measured_s += steps.take(step)
        if job.steps is None and measured_s >= job.min_measured_s:
            break
    if job.save_only_latest:
        checkpoints.remove(_LATEST)
    checkpoints.close()
    return Measurement(verification=steps.comparison.counts(), server=steps.server, details=details)


@dataclass(kw_only=True, slots=True)
class _Timed:
    """One save or load as it was measured."""

    value: Any = None
    started_s: float = 0.0
    staged_s: float | None = None
    ended_s: float = 0.0
    added_bytes: int | None = None
    server: ServerCounts | None = None


class _Steps:
    """Takes one step after another with one client, whose connections stay."""

    def __init__(
        self,
        job: CheckpointingJob,
        recorder: Recorder,
        checkpoints: Checkpoints,
        state: dict[str, Any],
        bare_bytes: int | None,
    ) -> None:
        self._job = job
        self._recorder = recorder
        self._checkpoints = checkpoints
        self._state = state
        self._state_bytes = state_bytes(state)
        self._bare_bytes = bare_bytes
        # Its own, so that what another job has left under a key does not pass for what this one has saved.
        self._mark = int.from_bytes(os.urandom(2)) / (1 << 16)
        self.comparison = StateComparison()
        self.server: ServerCounts | None = None

    def take(self, step: int) -> float:
        """Save, load and compare once, record it, and return how many seconds the save and the load took."""
        job, checkpoints = self._job, self._checkpoints
        key = _LATEST if job.save_only_latest else f"bucketbench-step-{max(step, 0)}.pt"
        mark_state(self._state, step + self._mark)
        try:
            self._tell("saving", step)
            saved = self._timed(lambda timed: self._save(key, timed))
            if job.clear_kernel_cache:
                clear_kernel_cache()
            self._tell("loading", step)
            loaded = self._timed(lambda timed: setattr(timed, "value", checkpoints.load(key)))
            compared = StateComparison()
            wrong = compared.compare(self._state, loaded.value, key=key)
        except Exception:
            with suppress(Exception):  # it may not be there, and what went wrong first is what is told
                checkpoints.remove(key)
            raise
        loaded.value = None
        if wrong or step != WARMUP:
            self.comparison.add(compared)
        if not job.save_only_latest:
            checkpoints.remove(key)
        for kind, timed in ((OperationKind.SAVE, saved), (OperationKind.LOAD, loaded)):
            self._record(kind, step, timed, errors=wrong if kind is OperationKind.LOAD else 0, right=not wrong)
        self._recorder.flush()
        return (saved.ended_s - saved.started_s) + (loaded.ended_s - loaded.started_s)

    def _save(self, key: str, timed: _Timed) -> None:
        if isinstance(self._checkpoints, SavesInBackground):
            under_way = self._checkpoints.save_async(self._state, key)
            timed.staged_s = time.monotonic()
            under_way.result()
        else:
            self._checkpoints.save(self._state, key)

    def _timed(self, work: Callable[[_Timed], None]) -> _Timed:
        timed = _Timed()
        give_back_free_memory()  # so that nothing of the step before counts as this one's
        with ServerDifference(self._job.admin_url) as server:
            forgotten = forget_peak()
            self._recorder.mark_edge()
            timed.started_s = time.monotonic()
            work(timed)
            timed.ended_s = time.monotonic()
            # What the client returned is still there, so that the sample has the memory that it takes.
            self._recorder.mark_edge()
            if forgotten and self._bare_bytes is not None:
                timed.added_bytes = max(peak_rss_bytes() - self._bare_bytes, 0)
        timed.server = server.counts
        return timed

    def _record(self, kind: OperationKind, step: int, timed: _Timed, *, errors: int, right: bool) -> None:
        measured = [
            operation(
                kind,
                step,
                timed.started_s,
                timed.ended_s,
                samples=1 if right else 0,
                content_bytes=self._state_bytes if right else 0,
                errors=errors,
                added_memory_bytes=timed.added_bytes,
                requests=None if timed.server is None else timed.server.requests,
            )
        ]
        if timed.staged_s is not None:
            measured.append(operation(OperationKind.STAGE, step, timed.started_s, timed.staged_s))
            measured.append(operation(OperationKind.COPY, step, *time_copy(self._state)))
        self._recorder.add(measured)
        if step != WARMUP and timed.server is not None:
            self.server = timed.server if self.server is None else _sum(self.server, timed.server)

    def _tell(self, stage: str, step: int) -> None:
        words = "warm-up" if step == WARMUP else f"{stage} checkpoint {step + 1}"
        self._recorder.progress(stage=words, done=max(step, 0), total=self._job.steps or max(step, 0) + 1)


def _sum(one: ServerCounts, other: ServerCounts) -> ServerCounts:
    return ServerCounts(**{f.name: getattr(one, f.name) + getattr(other, f.name) for f in fields(ServerCounts)})
