"""How long a step takes at least, and what makes it so long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bucketbench.scale.service import Kind, ServiceLimits
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scale.steps import Operation, Step
from buckettestbed.network.model import NetworkModel

__all__ = ["Bounds", "Demand", "Surroundings", "bounds_of", "demand_of", "seconds_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What ranks meet.

    Args:
        network: the scenario's network model, of which the wait for the first byte and a connection's rate are used.
        limits: of the service.
        scale: the hosts and the prefixes.
    """

    network: NetworkModel
    limits: ServiceLimits
    scale: ScaleSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The times that a step takes at least, by what they come from; the longest is its time.

    Args:
        carried: without the service's limits.
        service: by them.
    """

    carried: Mapping[str, float]
    service: Mapping[str, float]

    @property
    def carried_s(self) -> float:
        """What it would take if the service allowed any rate."""
        return max(self.carried.values())

    @property
    def seconds(self) -> float:
        """What it takes."""
        return max(self.carried_s, *self.service.values())

    @property
    def cause(self) -> str:
        """What that comes from."""
        both = {**self.carried, **self.service}
        return max(both, key=lambda name: both[name])


def bounds_of(step: Step, around: Surroundings) -> Bounds:
    """The bounds of a step.

    A process asks in rounds of ``in_flight`` requests. Each waits for the first byte and then moves its bytes at a
    connection's rate; ranks of a host share its link.
    """
    network, scale = around.network, around.scale
    requests = max(step.most_requests, 1.0)
    connection = network.connection_bytes_per_s
    moving_s = 0.0 if connection is None else step.most_bytes / requests / connection
    rounds = max(1.0, requests / step.in_flight)
    on_host = min(step.processes, scale.ranks_per_host)
    carried = {
        "the connections": rounds * (network.first_byte_s + moving_s),
        "the hosts' links": step.most_bytes * on_host / scale.host_bytes_per_s,
        "the accelerators": step.least_s,
    }
    carried_s = max(carried.values())
    prefixes = scale.prefixes if step.is_spread else 1
    service = {
        f"the service's {kind}": around.limits.least_s(
            kind, step.count(kind), _asked_per_s(step, kind, carried_s), prefixes
        )
        for kind in Kind
    }
    return Bounds(carried=carried, service=service)


def _asked_per_s(step: Step, kind: Kind, carried_s: float) -> float:
    """How many requests the processes would ask for in a second.

    A step that is shorter asks in that second for no more than it has: limits are of a second, not of its parts.
    """
    return step.count(kind) / max(carried_s, 1.0)


def seconds_of(operation: Operation, around: Surroundings) -> tuple[float, str]:
    """How long an operation takes at least, and what its longest step waits for."""
    bounds = [bounds_of(step, around) for step in operation.steps]
    longest = max(bounds, key=lambda found: found.seconds)
    return sum(found.seconds for found in bounds), longest.cause


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """The rate of the step that comes nearest to a limit of the service, or exceeds it most.

    Args:
        kind: reads or writes.
        asked_per_s: what ranks would ask for in a second, if the service allowed any rate.
        allowed_per_s: what it allows at once.
        is_spread: whether more prefixes would help.
    """

    kind: Kind
    asked_per_s: float
    allowed_per_s: float
    is_spread: bool

    @property
    def share(self) -> float:
        """The part of the limit that is asked for; above 1 too much is."""
        return self.asked_per_s / self.allowed_per_s


def demand_of(operation: Operation, around: Surroundings) -> Demand:
    """The demand of an operation, in its worst step."""
    found = []
    for step in operation.steps:
        carried_s = bounds_of(step, around).carried_s
        prefixes = around.scale.prefixes if step.is_spread else 1
        for kind in Kind:
            asked = _asked_per_s(step, kind, carried_s)
            allowed = around.limits.allowed_per_s(kind, prefixes)
            found.append(Demand(kind=kind, asked_per_s=asked, allowed_per_s=allowed, is_spread=step.is_spread))
    return max(found, key=lambda demand: demand.share)
