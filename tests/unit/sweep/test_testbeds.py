"""Which testbeds a sweep starts, and in which directories; none of them is started here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from composition import points_of_scenario

from bucketbench.job import testbeds as testbeds_module
from bucketbench.job.testbeds import Testbeds
from buckettestbed.launch import DirectoryInUseError, ForeignDirectoryError, RunningTestbed


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each testbed that would have been started, of which each locks its directory."""
    options: list[dict[str, Any]] = []

    @contextmanager
    def launch(**given: Any) -> Iterator[RunningTestbed]:
        directory = given.get("directory")
        if directory is not None and directory.name == "testbed-1":
            raise ForeignDirectoryError("its .buckettestbed has version 1")
        if directory is not None and directory in [other["directory"] for other in options]:
            raise DirectoryInUseError("another testbed serves it")
        options.append(given)
        number = len(options)
        yield RunningTestbed(
            s3_endpoint=f"http://127.0.0.1:{number}", gcs_endpoint="", admin="", ca_certificate=None, pid=number
        )

    monkeypatch.setattr(testbeds_module, "launch_testbed", launch)
    return options


def test_a_directory_of_another_release_is_passed_over_and_told_once(
    launched: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "testbed-1"
    swept = points_of_scenario("dataset", "client=boto3", "repeat=0", "target.tls=false,true", f"cache_dir={tmp_path}")
    with Testbeds(keeps_objects=True) as testbeds:
        endpoints = [testbeds.target(point).endpoint for point in swept]
    assert None not in endpoints
    assert [options["directory"].name for options in launched] == ["testbed-2", "testbed-3"]
    assert capsys.readouterr().err.count(f"{old} is of another release's testbed") == 1


def test_one_testbed_serves_whoever_asks_for_the_same(launched: list[dict[str, Any]], tmp_path: Path) -> None:
    swept = points_of_scenario(
        "dataset", "client=boto3,obstore", "repeat=0", "target.tls=false,true", "target.opaque_etags=false,true",
        f"cache_dir={tmp_path}",
    )  # fmt: skip
    with Testbeds(keeps_objects=False) as testbeds:
        endpoints = {testbeds.target(point).endpoint for point in swept}
    assert (len(swept), len(endpoints)) == (8, 4)
    assert [(options["tls"], options["opaque_etags"]) for options in launched] == [
        (tls, opaque) for tls in (False, True) for opaque in (False, True)
    ]


def test_a_testbed_listens_where_the_target_says(launched: list[dict[str, Any]]) -> None:
    swept = points_of_scenario(
        "dcp_ddp", "client=torchbucket", "repeat=0", "target.listen=127.0.0.1,127.0.0.2", "prefix=listening"
    )
    assert swept[0].parameters == swept[1].parameters, "who can reach it does not say what is measured"
    with Testbeds(keeps_objects=False) as testbeds:
        endpoints = {testbeds.target(point).endpoint for point in swept}
        told = testbeds.running()
    assert [options["host"] for options in launched] == ["127.0.0.1", "127.0.0.2"]
    assert len(endpoints) == len(told) == 2
