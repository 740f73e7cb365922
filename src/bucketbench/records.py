"""Raw records of one job: what happened, when, and how much arrived. Every figure is derived from these."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Self

__all__ = ["Figure", "Operation", "OperationKind", "Phase", "UsageSample"]


_SELDOM_MEASURED: Final = frozenset({"added_memory_bytes", "requests"})


class OperationKind(StrEnum):
    """What a recorded operation timed."""

    FORK_SERVER = "fork_server"  # starting the process that workers are forked from, torch loaded in it
    INDEX = "index"  # making the data set, its listing included
    FETCH = "fetch"  # a worker's fetch of one batch from storage, without decoding
    DECODE = "decode"  # turning one fetched batch into tensors
    WAIT = "wait"  # the training loop waiting for its next batch
    STEP = "step"  # the training loop's own work on one batch
    EPOCH = "epoch"  # one pass over the data, from asking for the first batch to having used the last
    STAGE = "stage"  # as long as saving a checkpoint kept the training from going on
    COPY = "copy"  # copying what is saved once, from memory to memory, which is the least that STAGE can take
    SAVE = "save"  # saving a checkpoint, until it was durable
    LOAD = "load"  # loading a checkpoint, until the last tensor was there


class Phase(StrEnum):
    """Whether an operation counts."""

    WARMUP = "warmup"
    MEASURE = "measure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One timed operation.

    Times are seconds of the host's monotonic clock, comparable between the processes of one host. ``samples`` and
    ``content_bytes`` count what arrived whole; ``errors`` counts samples that did not, none of whose bytes are counted.
    ``added_memory_bytes`` is by how much the process's memory exceeded, at most, that before the client was built, and
    ``requests`` how many the server counted meanwhile; both are None where that was not measured.
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
    same clock as the times of operations.
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

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The record of which ``to_json`` gave the fields."""
        return cls(**fields)


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
