"""The dataset scenario as a sweep's process knows it."""

from __future__ import annotations

from typing import Final

from bucketbench.scenarios.dataset.preparation import DatasetPreparation
from bucketbench.scenarios.dataset.settings import DatasetSettings
from bucketbench.scenarios.preparation import SweptScenario

__all__ = ["SWEPT"]

SWEPT: Final = SweptScenario(settings=DatasetSettings, preparation=DatasetPreparation)
