"""Measures a client that saves and loads distributed checkpoints of which every rank has rows, as with FSDP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketbench.checkpointing.distributed import measure_placed
from bucketbench.checkpointing.placement import Placement
from bucketbench.ranks import Ranks
from bucketbench.scenarios.recording import Measurement, Recorder

__all__ = ["measure"]


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client; see ``measure_placed``."""
    return measure_placed(Placement.SHARDED, fields, recorder, ranks)
