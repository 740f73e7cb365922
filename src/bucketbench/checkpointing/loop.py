"""Saves a state and loads it again, step by step, and records what that took.

What is timed:

- *save*: from the call of the client until the checkpoint is durable; *stage*: until the training could go on, which is
  the same for a client that saves in the foreground and is not recorded then.
- *copy*: a copy of the state from memory to memory, beside each *stage*, which takes no less.
- *train*: the training steps after a save, where there are any.
- *load*: from the call of the client until it has returned the state.

Each step changes every tensor, saves, loads, compares every byte and removes the checkpoint; only the save and the load
are measured. A usage sample is taken right before and right after each, and the kernel is asked for the highest memory
in between, since a save may be over before the next sample. Other orders are those of :class:`Action`.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from bucketbench.checkpointing.comparison import StateComparison
from bucketbench.checkpointing.course import Action, Course
from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.state import Piece, mark_of, mark_state, time_copy
from bucketbench.checkpointing.stopwatch import Stopwatch, Timed
from bucketbench.clients.checkpoint.protocol import Checkpoints, FindsSaves, LoadsInPlace, SavesInBackground
from bucketbench.ranks import Ranks
from bucketbench.records import OperationKind
from bucketbench.scenarios.kernel_cache import clear_kernel_cache
from bucketbench.scenarios.recording import WARMUP, Measurement, Recorder, operation
from bucketbench.statistics import ServerCounts

__all__ = ["OwnState", "measure_checkpoints"]

_LATEST: Final = "bucketbench-latest.pt"
_KEPT: Final = "bucketbench-kept"
_PLAIN: Final = Course()
_AUTO_STEPS: Final = 500  # at most, whatever they take: what surrounds a step takes another tenth of a second


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnState:
    """What one rank has of the state.

    Args:
        tensors: by name.
        counted_bytes: how many of the checkpoint's bytes are counted as this rank's: of a replica on one rank alone.
        pieces: of tensors that are parts of larger ones, where they lie in these.
        takes_part: whether the rank saves, or loads, at all.
    """

    tensors: dict[str, Any]
    counted_bytes: int
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    takes_part: bool = True


def measure_checkpoints(
    job: CheckpointingJob,
    recorder: Recorder,
    state: OwnState,
    ranks: Ranks,
    *,
    open_checkpoints: Callable[[], Checkpoints],
    details: dict[str, str],
    course: Course = _PLAIN,
    loaded_state: OwnState | None = None,
) -> Measurement:
    """Warm up, measure and check one client, in this process.

    Args:
        job: what is saved, and how often.
        recorder: takes the raw records.
        state: what of it is this rank's.
        ranks: those that save and load together.
        open_checkpoints: builds the client.
        details: how it was measured, for the results.
        course: in which order the job saves and loads.
        loaded_state: what this rank loads, where that is not what it saves.

    Returns:
        What was found. The records are in the recorder, flushed.

    Raises:
        Exception: whatever the client raises.
    """
    with _modules_uncollected():
        stopwatch = Stopwatch(recorder, ranks, admin_url=job.admin_url)
        started_s = time.monotonic()
        checkpoints = open_checkpoints()
        recorder.add([operation(OperationKind.INDEX, WARMUP, started_s, time.monotonic())])
        steps = _Steps(job, course, recorder, checkpoints, state, loaded_state or state, ranks, stopwatch)
        steps.take_all()
        checkpoints.close()
        verification = steps.comparison.counts(ranks)
        return Measurement(verification=verification, server=steps.server, details={**details, **steps.details})


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


class _Steps:
    """Takes one step after another with one client, whose connections stay."""

    def __init__(
        self,
        job: CheckpointingJob,
        course: Course,
        recorder: Recorder,
        checkpoints: Checkpoints,
        saved: OwnState,
        loaded: OwnState,
        ranks: Ranks,
        stopwatch: Stopwatch,
    ) -> None:
        self._job = job
        self._course = course
        self._recorder = recorder
        self._checkpoints = checkpoints
        self._saved = saved
        self._loaded = loaded
        self._ranks = ranks
        self._stopwatch = stopwatch
        # Its own, so that what another job has left under a key does not pass for what this one has saved; and that of
        # all its ranks, which save replicas of one another and load one another's rows.
        self._mark = ranks.greatest(int.from_bytes(os.urandom(2)) / (1 << 16))
        self.comparison = StateComparison()
        self.server: ServerCounts | None = None
        self.details: dict[str, str] = {}

    def take_all(self) -> None:
        """Warm up, and take all steps in the course's order."""
        action = self._course.action
        if action is Action.LOAD:
            self._find_or_save()
        take = {Action.SAVE: self._save_only, Action.ASYNC_SAVE: self._save_only, Action.LOAD: self._load_only}.get(
            action, self._save_and_load
        )
        if self._job.warmup:
            take(WARMUP)
        if action is Action.SAVES_THEN_LOADS:
            self._save_all_then_load()
            return
        measured_s = 0.0
        for step in range(_AUTO_STEPS if self._job.steps is None else self._job.steps):
            measured_s += self._ranks.greatest(take(step))
            if self._job.steps is not None:
                continue
            # What is wrong at once would take steps without end to fill the time.
            failed = self._ranks.greatest(float(self.comparison.found_wrong)) > 0
            if failed or measured_s >= self._job.min_measured_s:
                break
        if self._job.save_only_latest and not action.keeps_checkpoint:
            self._checkpoints.remove(_LATEST)

    def _save_and_load(self, step: int) -> float:
        """Save, load and compare once, record it, and return how many seconds the save and the load took."""
        key = self._key(step)
        with self._removed_on_error(key):
            saved = self._save(key, step)
            loaded, wrong = self._load(key, step)
        if not self._job.save_only_latest:
            self._checkpoints.remove(key)
        self._record(OperationKind.SAVE, step, saved, errors=0, right=not wrong)
        self._record(OperationKind.LOAD, step, loaded, errors=wrong, right=not wrong)
        self._recorder.flush()
        return saved.duration_s + loaded.duration_s

    def _save_all_then_load(self) -> None:
        """Save every checkpoint, then load each and remove it."""
        numbers = range(self._job.steps or 0)
        begun: list[int] = []
        there: dict[int, Timed] = {}
        try:
            for step in numbers:
                begun.append(step)
                there[step] = self._save(self._key(step), step)
            for step in numbers:
                loaded, wrong = self._load(self._key(step), step)
                self._record(OperationKind.SAVE, step, there.pop(step), errors=0, right=not wrong)
                self._record(OperationKind.LOAD, step, loaded, errors=wrong, right=not wrong)
                self._recorder.flush()
                self._checkpoints.remove(self._key(step))
                begun.remove(step)
        except BaseException:  # torch.distributed.checkpoint's is no Exception
            for step in begun:
                with suppress(Exception):  # what went wrong first is what is told
                    self._checkpoints.remove(self._key(step))
            raise

    def _save_only(self, step: int) -> float:
        """Save once, compare without measuring that, and record the save. The last checkpoint of a job may stay."""
        keeps = self._course.action.keeps_checkpoint
        key = _KEPT if keeps else self._key(step)
        if keeps and not self._job.save_only_latest and self._has(key):
            self._checkpoints.remove(key)
        with self._removed_on_error(key):
            saved = self._save(key, step)
            wrong = self._load(key, step)[1] if self._course.verify else 0
        if not keeps and not self._job.save_only_latest:
            self._checkpoints.remove(key)
        self._record(OperationKind.SAVE, step, saved, errors=wrong, right=not wrong)
        self._recorder.flush()
        return saved.duration_s

    def _load_only(self, step: int) -> float:
        """Load what is there, compare and record it."""
        loaded, wrong = self._load(_KEPT, step, is_own=False)
        self._record(OperationKind.LOAD, step, loaded, errors=wrong, right=not wrong)
        self._recorder.flush()
        return loaded.duration_s

    def _find_or_save(self) -> None:
        """Have what is to be loaded there: what an earlier job has saved, or else what this one saves now."""
        found = self._has(_KEPT)
        self.details["loaded"] = "found" if found else "saved first, unmeasured"
        if not found:
            self._tell("saving what is loaded, checkpoint", 0)
            mark_state(self._saved.tensors, self._mark, self._saved.pieces)
            with self._removed_on_error(_KEPT):
                self._finder.save_for_loads(self._saved.tensors, _KEPT)
                self._ranks.wait_for_all()

    def _has(self, key: str) -> bool:
        """Whether every rank finds a checkpoint."""
        return self._ranks.greatest(0.0 if self._finder.is_saved(key) else 1.0) == 0

    @property
    def _finder(self) -> FindsSaves:
        assert isinstance(self._checkpoints, FindsSaves), "scenarios without such checkpoints have no such action"
        return self._checkpoints

    def _key(self, step: int) -> str:
        return _LATEST if self._job.save_only_latest else f"bucketbench-step-{max(step, 0)}.pt"

    @contextmanager
    def _removed_on_error(self, key: str) -> Iterator[None]:
        try:
            yield
        except BaseException:  # torch.distributed.checkpoint's is no Exception
            with suppress(Exception):  # it may not be there, and what went wrong first is what is told
                self._checkpoints.remove(key)
            raise

    def _save(self, key: str, step: int) -> Timed:
        """Change every tensor, and save."""
        mark_state(self._saved.tensors, step + self._mark, self._saved.pieces)
        self._tell("saving checkpoint", step)
        timed = self._stopwatch.time(lambda timed: self._save_now(key, timed))
        if timed.staged_s is None and self._course.steps_per_save:
            timed.trained_s = self._train()
        return timed

    def _save_now(self, key: str, timed: Timed) -> None:
        if not isinstance(self._checkpoints, SavesInBackground):
            self._checkpoints.save(self._saved.tensors, key)
            return
        under_way = self._checkpoints.save_async(self._saved.tensors, key)
        timed.staged_s = time.monotonic()
        durable_s: list[float] = []
        if self._course.steps_per_save:
            if hasattr(under_way, "add_done_callback"):
                under_way.add_done_callback(lambda _: durable_s.append(time.monotonic()))
            timed.trained_s = self._train()
        under_way.result()
        timed.ended_s = durable_s[0] if durable_s else 0.0

    def _train(self) -> tuple[float, float]:
        """Take the training steps after a save, each of which changes the state; return when they began and ended."""
        started_s = time.monotonic()
        for number in range(self._course.steps_per_save):
            mark_state(self._saved.tensors, -2.0 - number, self._saved.pieces)  # no checkpoint's
            time.sleep(self._course.step_time_s)
        return started_s, time.monotonic()

    def _load(self, key: str, step: int, *, is_own: bool = True) -> tuple[Timed, int]:
        """Load, and compare with what was saved at a step; with what any job has saved where it was not this one."""
        checkpoints = self._checkpoints
        if self._job.clear_kernel_cache:
            clear_kernel_cache()
        self._tell("loading checkpoint", step)
        if isinstance(checkpoints, LoadsInPlace):
            checkpoints.make_room()
        timed = self._stopwatch.time(lambda timed: setattr(timed, "value", checkpoints.load(key)))
        mark = step + self._mark if is_own else self._found_mark(timed.value)
        wrong = 0
        if self._loaded.takes_part:
            mark_state(self._loaded.tensors, mark, self._loaded.pieces)
            compared = StateComparison()
            wrong = compared.compare(self._loaded.tensors, timed.value, key=key)
            if wrong or step != WARMUP:
                self.comparison.add(compared)
        timed.value = None
        return timed, wrong

    def _found_mark(self, loaded: Any) -> float:
        """The mark of what another job has saved: that of all tensors of all ranks, or some of them are wrong."""
        own = mark_of(loaded, self._loaded.pieces) if isinstance(loaded, Mapping) else None
        return self._ranks.greatest(float("-inf") if own is None else own)

    def _record(self, kind: OperationKind, step: int, timed: Timed, *, errors: int, right: bool) -> None:
        state = self._saved if kind is OperationKind.SAVE else self._loaded
        server = timed.server
        if step != WARMUP and server is not None:
            self.server = server if self.server is None else self.server.plus(server)
        copied_s = None
        if kind is OperationKind.SAVE and isinstance(self._checkpoints, SavesInBackground):
            # By all ranks at once, as they copy what they save.
            copied_s = time_copy(state.tensors if state.takes_part else {}, ready=self._ranks.wait_for_all)
        if not state.takes_part:
            return
        wire_bytes = None if server is None else server.bytes_in if kind is OperationKind.SAVE else server.bytes_out
        measured = [
            operation(
                kind,
                step,
                timed.started_s,
                timed.ended_s,
                samples=1 if right else 0,
                content_bytes=state.counted_bytes if right else 0,
                errors=errors,
                added_memory_bytes=timed.added_bytes,
                requests=None if server is None else server.requests,
                wire_bytes=wire_bytes,
                requests_by_name=None if server is None else server.requests_by_name,
            )
        ]
        if timed.staged_s is not None:
            measured.append(operation(OperationKind.STAGE, step, timed.started_s, timed.staged_s))
        if timed.staged_s is not None and copied_s is not None:
            measured.append(operation(OperationKind.COPY, step, *copied_s))
        if timed.trained_s is not None:
            measured.append(operation(OperationKind.TRAIN, step, *timed.trained_s))
        self._recorder.add(measured)

    def _tell(self, stage: str, step: int) -> None:
        words = "warm-up" if step == WARMUP else f"{stage} {step + 1}"
        self._recorder.progress(stage=words, done=max(step, 0), total=self._job.steps or max(step, 0) + 1)
