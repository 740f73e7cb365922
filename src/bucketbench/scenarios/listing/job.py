"""One job of the listing scenario as the measured process receives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bucketbench.clients.protocol import Target
from bucketbench.job.description import Job, component
from bucketbench.scenarios.listing.names import NamesSpec

__all__ = ["ListingJob"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListingJob(Job):
    """A client that lists every object under a prefix.

    Args:
        names: what is there.
        passes: number of measured listings, None for as many as ``min_measured_s`` takes together.
        warmup_prefix: what is listed first, without being measured; None for nothing.
    """

    names: NamesSpec
    passes: int | None
    warmup_prefix: str | None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        nested = {
            "client": component(fields["client"]),
            "target": Target(**fields["target"]),
            "names": NamesSpec(**fields["names"]),
        }
        return cls(**{**fields, **nested})
