"""Which GPUs are read, with a stand-in for NVML: the machines that run these tests have none."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from bucketbench.telemetry.gpu import Gpus, GpuUsage

GPUS = {"GPU-aaaa": (10, 100), "GPU-bbbb": (20, 200), "GPU-cccc": (60, 400)}


class Nvml(ModuleType):
    """As much of ``pynvml`` as is used, over the GPUs above."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, driver: bool = True, splits: bool = False) -> None:
        super().__init__("pynvml")
        self.driver, self.splits, self.open = driver, splits, False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name, as are those below
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(GPUS)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        if index >= len(GPUS):
            raise self.NVMLError("Invalid Argument")
        return list(GPUS)[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in GPUS:
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        if self.splits:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=GPUS[handle][0])

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=GPUS[handle][1])


@pytest.mark.parametrize(
    ("visible", "usage"),
    [
        (None, GpuUsage(utilisation_percent=30, memory_bytes=700)),
        ("1", GpuUsage(utilisation_percent=20, memory_bytes=200)),
        ("2, 0", GpuUsage(utilisation_percent=35, memory_bytes=500)),
        ("GPU-bbbb", GpuUsage(utilisation_percent=20, memory_bytes=200)),
        ("0,-1,1", GpuUsage(utilisation_percent=10, memory_bytes=100)),
        ("", None),
        ("7", None),
    ],
)
def test_the_visible_gpus_are_read(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, usage: GpuUsage | None
) -> None:
    nvml = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = Gpus()
    assert gpus.read() == usage
    gpus.close()
    assert not nvml.open
    assert gpus.read() is None


def test_memory_is_read_where_utilisation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(splits=True))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert Gpus().read() == GpuUsage(utilisation_percent=None, memory_bytes=100)


@pytest.mark.parametrize("module", [None, Nvml(driver=False)])
def test_without_package_or_driver_there_is_no_reading(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    gpus = Gpus()
    assert gpus.read() is None
    gpus.close()
