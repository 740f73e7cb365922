"""One module a scenario: what is measured, in the measured process. A scenario knows no client by name."""

from __future__ import annotations

from typing import Final

__all__ = ["SCENARIOS"]

SCENARIOS: Final = {"dataset": "bucketbench.scenarios.dataset"}
"""The module of each scenario; it has ``run(job, recorder)`` and is imported in the measured process alone."""
