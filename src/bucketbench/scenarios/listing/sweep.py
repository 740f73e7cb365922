"""The listing scenario as a sweep's process knows it."""

from __future__ import annotations

from typing import Final

from bucketbench.scenarios.listing.preparation import ListingPreparation
from bucketbench.scenarios.listing.settings import ListingSettings
from bucketbench.scenarios.preparation import SweptScenario

__all__ = ["SWEPT"]

SWEPT: Final = SweptScenario(
    settings=ListingSettings,
    preparation=ListingPreparation,
    client_group="listing_client",
    # Many names are in memory in seconds, and as files they would hold up the testbed's next start for as long.
    keeps_objects=False,
)
