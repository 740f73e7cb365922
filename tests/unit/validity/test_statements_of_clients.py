"""What clients state of themselves, and how a data set's job drops the kernel's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from composition import points_of_scenario

from bucketbench.clients.checkpoint.torchbucket import Torchbucket as CheckpointClient
from bucketbench.clients.disk import Disk
from bucketbench.clients.mount import Mount
from bucketbench.clients.torchbucket import TorchbucketMap
from bucketbench.errors import PreflightError
from bucketbench.results.job import cache_state
from bucketbench.scenarios.client_statement import told_by


def test_clients_of_files_and_mounts_and_composing_ones_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_by(Disk()) == {"reads_through": "disk"}
    assert told_by(Mount()) == {"reads_through": "mount"}
    assert told_by(TorchbucketMap(compose=True)) == {"expects": "compose"}
    assert told_by(TorchbucketMap()) == told_by(CheckpointClient()) == {}
    monkeypatch.setattr("bucketbench.clients.checkpoint.torchbucket.can_lay_out", lambda: False)
    assert "cannot lay out a checkpoint without its data" in told_by(CheckpointClient())["fallback"]


def test_the_kernels_cache_is_dropped_where_that_is_permitted_and_is_a_parameter_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plain,) = points_of_scenario("dataset", "client=disk", "repeat=0")
    assert "clear_kernel_cache" not in plain.parameters, "so that a job stays comparable with those from before"
    assert cache_state(plain)["state"] == "warm"
    (point,) = points_of_scenario("dataset", "client=disk", "repeat=0", "clear_kernel_cache=true")
    assert point.parameters["clear_kernel_cache"] is True
    assert cache_state(point)["state"] == "cold"
    assert plain.parameters["verify_share"] == 0.125
    (all_bytes,) = points_of_scenario("dataset", "client=disk", "repeat=0", "verify_share=1.0")
    assert "verify_share" not in all_bytes.parameters, "as before there was a choice"
    switch = tmp_path / "drop_caches"
    monkeypatch.setattr("bucketbench.scenarios.kernel_cache._DROP_CACHES", switch)
    with pytest.raises(PreflightError, match="clear_kernel_cache=true cannot be used"):
        point.check_fits(memory_bytes=64 << 30, free_disk_bytes=64 << 30)
    switch.touch()
    point.check_fits(memory_bytes=64 << 30, free_disk_bytes=64 << 30)
