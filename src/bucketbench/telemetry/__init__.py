"""What a job's processes use while they work: CPU time, memory, network and GPU."""

from __future__ import annotations

from bucketbench.telemetry.others import OtherProcesses
from bucketbench.telemetry.sampler import UsageSampler

__all__ = ["OtherProcesses", "UsageSampler"]
