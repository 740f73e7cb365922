"""What ranks ask of a service: operations, which consist of steps that follow one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from bucketbench.cost.bill import Usage
from bucketbench.scale.service import Kind, kind_of

__all__ = ["Operation", "Step"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What processes do at the same time, until the last of them is done.

    Args:
        name: what it is, in words.
        requests: of all processes together, by operation.
        received_bytes: what they all read.
        sent_bytes: what they all write.
        processes: how many of them there are, on as many hosts as ranks need.
        most_requests: those of the process that has most.
        most_bytes: likewise, read and written.
        in_flight: how many requests a process has on their way at once.
        is_spread: whether the files are spread over the prefixes; else they are below one.
        least_s: what it takes whatever the network does, such as the time that accelerators need.
    """

    name: str
    requests: Mapping[str, float]
    received_bytes: float = 0.0
    sent_bytes: float = 0.0
    processes: int
    most_requests: float
    most_bytes: float
    in_flight: int
    is_spread: bool = False
    least_s: float = 0.0

    @classmethod
    def of_each(
        cls,
        name: str,
        requests: Mapping[str, int],
        *,
        processes: int = 1,
        received_bytes: float = 0.0,
        sent_bytes: float = 0.0,
        in_flight: int,
        is_spread: bool = False,
    ) -> Self:
        """What so many processes do alike.

        Args:
            name: what it is, in words.
            requests: of each.
            processes: how many; one is the coordinator, for which the others wait.
            received_bytes: what each reads.
            sent_bytes: what each writes.
            in_flight: how many requests each has on their way at once.
            is_spread: whether what they ask for is spread over the prefixes.
        """
        return cls(
            name=name,
            requests={operation: count * processes for operation, count in requests.items()},
            received_bytes=received_bytes * processes,
            sent_bytes=sent_bytes * processes,
            processes=processes,
            most_requests=sum(requests.values()),
            most_bytes=received_bytes + sent_bytes,
            in_flight=in_flight,
            is_spread=is_spread,
        )

    def count(self, kind: Kind) -> float:
        """How many requests of a kind."""
        return sum(count for name, count in self.requests.items() if kind_of(name) is kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A save, a load, an epoch, a listing.

    Args:
        name: what it is.
        steps: in their order.
        memory: bytes of memory by who needs them and what for, of one process each.
        counts: how many there are of what, such as files.
        sizes: bytes of what is beside the files, such as the metadata.
        stored_bytes: what it leaves in the bucket.
    """

    name: str
    steps: tuple[Step, ...]
    memory: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    stored_bytes: float = 0.0

    @property
    def usage(self) -> Usage:
        """All requests and bytes."""
        requests: dict[str, float] = {}
        for step in self.steps:
            for name, count in step.requests.items():
                requests[name] = requests.get(name, 0.0) + count
        return Usage(
            requests=requests,
            received_bytes=sum(step.received_bytes for step in self.steps),
            sent_bytes=sum(step.sent_bytes for step in self.steps),
        )
