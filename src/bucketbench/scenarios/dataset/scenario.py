"""The dataset scenario."""

from __future__ import annotations

from typing import Final

from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.scenarios.dataset.settings import DatasetSettings
from bucketbench.scenarios.dataset.table import TABLE
from bucketbench.scenarios.scenario import Scenario

__all__ = ["SCENARIO"]

SCENARIO: Final = Scenario(
    name="dataset",
    settings=DatasetSettings,
    preparation="bucketbench.scenarios.dataset.preparation.DatasetPreparation",
    measurement="bucketbench.scenarios.dataset.measurement.measure",
    figures=FIGURES,
    table=TABLE,
    tunable=(
        "dataloader.num_workers",
        "dataloader.prefetch_factor",
        "dataloader.start_method",
        "dataloader.persistent_workers",
        "dataloader.pin_memory",
    ),
)
