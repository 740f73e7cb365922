"""The listing scenario."""

from __future__ import annotations

from typing import Final

from bucketbench.scenarios.listing.figures import FIGURES
from bucketbench.scenarios.listing.settings import ListingSettings
from bucketbench.scenarios.listing.table import TABLE
from bucketbench.scenarios.scenario import Scenario

__all__ = ["SCENARIO"]

SCENARIO: Final = Scenario(
    name="listing",
    settings=ListingSettings,
    preparation="bucketbench.scenarios.listing.preparation.ListingPreparation",
    measurement="bucketbench.scenarios.listing.measurement.measure",
    figures=FIGURES,
    table=TABLE,
    # Many names are in memory in seconds, and as files they would hold up the testbed's next start for as long.
    keeps_objects=False,
)
