"""Utilisation and memory of the GPUs that a job may use, by NVML."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["GpuUsage", "Gpus"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuUsage:
    """The mean utilisation and the memory in use, of all processes, of the visible GPUs together.

    Either is None where the driver does not tell it, as the utilisation of a GPU that is split by MIG.
    """

    utilisation_percent: float | None
    memory_bytes: int | None


class Gpus:
    """Reads the GPUs that ``CUDA_VISIBLE_DEVICES`` names, all of the host without it.

    Without the ``nvidia-ml-py`` package, a driver or a GPU every reading is None. Making one loads NVML, so it is made
    in the measured process and not before a fork. Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        """Find the GPUs; finding none is no error."""
        self._nvml = _load_nvml()
        self._handles: Sequence[Any] = () if self._nvml is None else _visible_handles(self._nvml)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._handles)

    def read(self) -> GpuUsage | None:
        """Read the GPUs now; None without any."""
        if self._nvml is None or not self._handles:
            return None
        nvml = self._nvml
        percents = self._ask(lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        used_bytes = self._ask(lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used)
        return GpuUsage(
            utilisation_percent=None if percents is None else sum(percents) / len(percents),
            memory_bytes=None if used_bytes is None else sum(used_bytes),
        )

    def _ask(self, question: Callable[[Any], int]) -> list[int] | None:
        assert self._nvml is not None
        try:
            return [question(handle) for handle in self._handles]
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        """Let go of NVML; readings are None afterwards."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None


def _load_nvml() -> ModuleType | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    module: ModuleType = pynvml
    return module


def _visible_handles(nvml: ModuleType) -> list[Any]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        if named is None:
            return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        handles = []
        for name in (part.strip() for part in named.split(",")):
            if name.isdecimal():
                handles.append(nvml.nvmlDeviceGetHandleByIndex(int(name)))
            elif name.startswith(("GPU-", "MIG-")):
                handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
            else:  # CUDA, too, ignores what follows the first name it does not know, such as -1
                break
        return handles
    except nvml.NVMLError:
        return []
