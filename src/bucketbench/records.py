"""Raw records of one job: what happened, when, and how much arrived. Every figure is derived from these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Self

__all__ = ["Figure", "Mark", "Operation", "OperationKind", "Phase", "State", "UsageSample"]


_SELDOM_MEASURED: Final = frozenset({"added_memory_bytes", "requests", "wire_bytes", "requests_by_name"})


class OperationKind(StrEnum):
    """What a recorded operation timed."""

    FORK_SERVER = "fork_server"  # starting the process that workers are forked from, torch loaded in it
    INDEX = "index"  # making the data set, its listing included
    FETCH = "fetch"  # a worker's fetch of one batch from storage, without decoding
    NEXT = "next"  # a worker taking one batch from a stream that may have read it ahead, without decoding
    DECODE = "decode"  # turning one fetched batch into tensors
    WAIT = "wait"  # the training loop waiting for its next batch
    STEP = "step"  # the training loop's own work on one batch
    EPOCH = "epoch"  # one pass over the data, from asking for the first batch to having used the last
    STAGE = "stage"  # as long as saving a checkpoint kept the training from going on
    COPY = "copy"  # copying what is saved once, from memory to memory, which is the least that STAGE can take
    TRAIN = "train"  # the training steps after a save, while it goes on in the background or when it is over
    SAVE = "save"  # saving a checkpoint, until it was durable
    LOAD = "load"  # loading a checkpoint, until the last tensor was there


class Phase(StrEnum):
    """Whether an operation counts."""

    WARMUP = "warmup"
    MEASURE = "measure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One timed operation.

    Times are seconds of the host's monotonic clock, comparable between the processes of one host; those of other hosts
    are put right when they are read (:func:`bucketbench.results.raw.read_raw`). ``samples`` and
    ``content_bytes`` count what arrived whole; ``errors`` counts samples that did not, none of whose bytes are counted.
    ``added_memory_bytes`` is by how much the process's memory exceeded, at most, that before the client was built, and
    ``requests`` how many the server counted meanwhile, and ``requests_by_name`` how many of each operation;
    ``wire_bytes`` are those of the bodies that it received of a save, or sent of a load. Each is None where that was
    not measured.
    """

    kind: OperationKind
    phase: Phase
    epoch: int
    worker: int
    started_s: float
    ended_s: float
    samples: int = 0
    content_bytes: int = 0
    errors: int = 0
    error: str | None = None
    rank: int = 0
    added_memory_bytes: int | None = None
    requests: int | None = None
    wire_bytes: int | None = None
    requests_by_name: Mapping[str, int] | None = None

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.ended_s - self.started_s

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values, without what most kinds of operation do not measure."""
        return {
            name: value for name, value in asdict(self).items() if value is not None or name not in _SELDOM_MEASURED
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The record of which ``to_json`` gave the fields; raise where one is missing or unknown."""
        return cls(**{**fields, "kind": OperationKind(fields["kind"]), "phase": Phase(fields["phase"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageSample:
    """What a job's processes, the measured one and its workers together, had used at one moment.

    ``cpu_s`` and the network counters grow; ``rss_bytes`` is of the moment, a page that several processes share counted
    once where the system can tell (see ``bucketbench.telemetry``). The network counters are the host's interfaces
    (loopback included) and None where they cannot be read; the GPU fields are None without a GPU. ``at_s`` is of the
    same clock as the times of operations, and ``wall_clock_s`` the time of day at the same moment, in seconds since
    1970. The ``host_`` counters are seconds of all processors that the job may use together: busy with whatever, taken
    by the hypervisor for other guests (steal), and passed; ``host_interrupts_s`` are those of the busy ones that no
    process is told to have used. ``harness_cpu_s`` is what the harness itself had used: taking these samples, the
    process that runs the job, and the testbed. ``others_cpu_s`` is what all other processes of the machine have used
    since the first sample, by command; samples between the edges of what is measured, and those of all ranks of a
    machine but its first, do not have it. Of ``others_are_all`` false some processes cannot be seen from where the job
    runs. ``quota_periods`` are those of the quota of processor time that the job is under, 0 without one, and
    ``quota_throttled_periods`` those of them in which it stopped the job. ``storage_read_bytes`` is what the job's
    processes had the kernel read from storage devices: of files whose pages memory holds already it reads nothing. Each
    is None where the system does not tell it, and in records of versions that did not take it.
    """

    at_s: float
    cpu_s: float
    rss_bytes: int
    processes: int
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None
    gpu_utilisation_percent: float | None = None
    gpu_memory_bytes: int | None = None
    rank: int = 0
    wall_clock_s: float | None = None
    host_busy_s: float | None = None
    host_steal_s: float | None = None
    host_passed_s: float | None = None
    storage_read_bytes: int | None = None
    host_interrupts_s: float | None = None
    harness_cpu_s: float | None = None
    others_cpu_s: Mapping[str, float] | None = None
    others_are_all: bool | None = None
    quota_periods: int | None = None
    quota_throttled_periods: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The record of which ``to_json`` gave the fields."""
        return cls(**fields)


class State(StrEnum):
    """Whether the figures of a job, or of a row, are what they are said to be."""

    VALID = "valid"  # no rule is broken, as far as it could be told
    DOUBTFUL = "doubtful"  # something that should not be there was, and may have changed them
    INVALID = "invalid"  # they measure something else than they are said to


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A rule that a job broke.

    Args:
        rule: its name, one of ``bucketbench.validity.RULES``.
        state: what that makes of the job: doubtful or invalid.
        reason: what was found, in words, with the limit.
    """

    rule: str
    state: State
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A derived figure: a value and its unit, or no value and the reason. Never zero for what was not measured."""

    unit: str
    value: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise ValueError(
                f"a figure has either a value or a reason for having none, got {self.value!r} and {self.reason!r}"
            )
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"a figure's value is a finite number, got {self.value!r} {self.unit}")

    def to_json(self) -> dict[str, Any]:
        """The figure as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The figure of which ``to_json`` gave the fields."""
        return cls(**fields)
