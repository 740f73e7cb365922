"""What control groups tell of a quota of processor time, from planted files of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketbench.telemetry.quota import ProcessorQuota, QuotaPeriods

STAT = "usage_usec 5\nnr_periods 40\nnr_throttled 10\nthrottled_usec 123\n"


def quota(directory: Path, cgroups: str, files: dict[str, str]) -> ProcessorQuota:
    root = directory / "cgroup"
    root.mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (directory / "own").write_text(cgroups)
    return ProcessorQuota(root=root, cgroups=directory / "own")


OTHER = STAT.replace("40", "90")
PLANTED: dict[str, tuple[str, dict[str, str], QuotaPeriods | None]] = {
    "version 2, in a container": (
        "0::/\n", {"cpu.max": "200000 100000\n", "cpu.stat": STAT}, QuotaPeriods(periods=40, throttled=10),
    ),
    "version 2, of a service on the host": (
        "0::/system.slice/own.service\n",
        {"system.slice/own.service/cpu.max": "50000 100000", "system.slice/own.service/cpu.stat": STAT, "cpu.stat": ""},
        QuotaPeriods(periods=40, throttled=10),
    ),
    "the level above has less": (
        "0::/pod/container\n",
        {
            "pod/container/cpu.max": "400000 100000", "pod/container/cpu.stat": OTHER,
            "pod/cpu.max": "300000 100000", "pod/cpu.stat": STAT,
        },
        QuotaPeriods(periods=40, throttled=10),
    ),
    "version 1": (
        "3:memory:/\n2:cpu,cpuacct:/docker/0123\n0::/\n",
        {"cpu,cpuacct/cpu.cfs_quota_us": "150000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
         "cpu,cpuacct/cpu.stat": STAT},
        QuotaPeriods(periods=40, throttled=10),
    ),
    "version 2 without a quota": (
        "0::/own\n", {"own/cpu.max": "max 100000\n", "own/cpu.stat": STAT}, QuotaPeriods(periods=0, throttled=0),
    ),
    "version 1 without a quota": (
        "1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n", "cpu/cpu.stat": STAT},
        QuotaPeriods(periods=0, throttled=0),
    ),
    "none of the groups is mounted": ("1:cpu:/\n", {}, None),
    "counters that cannot be read": ("0::/\n", {"cpu.max": "200000 100000\n", "cpu.stat": "what\n"}, None),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_the_periods_of_the_least_quota_are_told(
    tmp_path: Path, planted: tuple[str, dict[str, str], QuotaPeriods | None]
) -> None:
    cgroups, files, expected = planted
    assert quota(tmp_path, cgroups, files).read() == expected


def test_a_system_without_control_groups_tells_nothing(tmp_path: Path) -> None:
    assert ProcessorQuota(root=tmp_path, cgroups=tmp_path / "absent").read() is None
