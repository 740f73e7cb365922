"""Works out every operation of a configuration for every number of ranks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from bucketbench.configuration.settings import JobSettings
from bucketbench.cost.bill import bill, month_of_storage
from bucketbench.errors import ConfigurationError
from bucketbench.scale.bounds import Demand, Surroundings, demand_of, seconds_of
from bucketbench.scale.composition import Composed
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scale.steps import Operation

__all__ = ["Outcome", "model_of", "simulated"]


class Model(Protocol):
    """Knows the operations of some scenarios."""

    clients: ClassVar[Mapping[str, tuple[str, ...]]]
    """The clients that it knows, by scenario, by their ``_target_``."""

    def operations(self, world_size: int) -> list[Operation]:
        """What so many ranks do."""


# Imported where they are needed: those of checkpoints need torch.
_MODELS: Final = {
    "dataset": "bucketbench.scale.epochs.EpochModel",
    "listing": "bucketbench.scale.listings.ListingModel",
    "dcp_ddp": "bucketbench.scale.checkpoints.CheckpointModel",
    "dcp_fsdp": "bucketbench.scale.checkpoints.CheckpointModel",
    "dcp_simulated": "bucketbench.scale.checkpoints.CheckpointModel",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one operation of so many ranks comes to.

    Args:
        ranks: how many.
        operation: what is done.
        seconds: how long it takes at least.
        cause: what its longest step waits for.
        demand: how near it comes to the service's limits.
        cost: of its requests and bytes, in the currency of the price list.
        month: of keeping for a month what it leaves.
    """

    ranks: int
    operation: Operation
    seconds: float
    cause: str
    demand: Demand
    cost: float
    month: float

    @property
    def requests(self) -> float:
        """How many, of all ranks together."""
        return sum(self.operation.usage.requests.values())


def model_of(settings: JobSettings, scale: ScaleSettings) -> Model:
    """What knows the scenario's operations.

    Raises:
        ConfigurationError: nobody knows those of this scenario or client.
    """
    if settings.scenario not in _MODELS:
        raise ConfigurationError(
            f"the scenario {settings.scenario} is not simulated; those that are: {', '.join(_MODELS)}"
        )
    module, _, name = _MODELS[settings.scenario].rpartition(".")
    model = getattr(importlib.import_module(module), name)
    known = model.clients[settings.scenario]
    if settings.client.target not in known:
        raise ConfigurationError(
            f"client={settings.client.name}: only torchbucket's requests are simulated in the {settings.scenario} "
            f"scenario, those of {' and '.join(target.rpartition('.')[2] for target in known)}"
        )
    found: Model = model(settings, scale)
    return found


def simulated(of: Composed) -> Sequence[Outcome]:
    """Every operation for every number of ranks, operation by operation."""
    around = Surroundings(network=of.settings.network_model, limits=of.limits, scale=of.scale)
    model = model_of(of.settings, of.scale)
    by_ranks = [
        [_outcome(operation, ranks, of, around) for operation in model.operations(ranks)] for ranks in of.scale.ranks
    ]
    return [outcomes[number] for number in range(len(by_ranks[0])) for outcomes in by_ranks]


def _outcome(operation: Operation, ranks: int, of: Composed, around: Surroundings) -> Outcome:
    seconds, cause = seconds_of(operation, around)
    return Outcome(
        ranks=ranks,
        operation=operation,
        seconds=seconds,
        cause=cause,
        demand=demand_of(operation, around),
        cost=bill(operation.usage, of.prices, route=of.scale.route).total,
        month=month_of_storage(operation.stored_bytes, of.prices),
    )
