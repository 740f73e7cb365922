"""From requests and bytes to money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bucketbench.cost.prices import PriceList
from bucketbench.errors import ConfigurationError

__all__ = ["Bill", "Usage", "bill", "month_of_storage"]

_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What was asked of a service.

    Args:
        requests: how many by operation, by the names that the testbed counts them by, retries included.
        received_bytes: of bodies that were read.
        sent_bytes: of bodies that were written.
    """

    requests: Mapping[str, float]
    received_bytes: float = 0.0
    sent_bytes: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """What it costs, in the price list's currency.

    Args:
        requests: by their class.
        received: for what was read.
        sent: for what was written.
    """

    requests: Mapping[str, float]
    received: float
    sent: float

    @property
    def total(self) -> float:
        """All together."""
        return sum(self.requests.values()) + self.received + self.sent


def bill(usage: Usage, prices: PriceList, *, route: str = "same_region") -> Bill:
    """What a usage costs.

    Args:
        usage: what was asked for.
        prices: of the service.
        route: the way of what was read.

    Raises:
        ConfigurationError: the price list has no such operation or way. Nothing is free because it was forgotten.
    """
    if unknown := sorted(name for name, count in usage.requests.items() if count and name not in prices.classes):
        raise ConfigurationError(
            f"the price list {prices.name} does not say what {', '.join(unknown)} costs: add it to the operations of a "
            "class under requests"
        )
    if route not in prices.received_per_gib:
        raise ConfigurationError(
            f"the price list {prices.name} does not say what reading by the way {route!r} costs; it has "
            f"{', '.join(prices.received_per_gib)}"
        )
    requests = dict.fromkeys(prices.per_1000, 0.0)
    for name, count in usage.requests.items():
        if count:
            requests[prices.classes[name]] += count * prices.per_1000[prices.classes[name]] / 1000
    return Bill(
        requests=requests,
        received=usage.received_bytes / _GIB * prices.received_per_gib[route],
        sent=usage.sent_bytes / _GIB * prices.sent_per_gib,
    )


def month_of_storage(size_bytes: float, prices: PriceList) -> float:
    """What it costs to keep so many bytes for a month."""
    return size_bytes / _GIB * prices.stored_per_gib_month
