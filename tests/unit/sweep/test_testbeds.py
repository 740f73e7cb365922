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
from buckettestbed.launch import RunningTestbed


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each testbed that would have been started."""
    options: list[dict[str, Any]] = []

    @contextmanager
    def launch(**given: Any) -> Iterator[RunningTestbed]:
        options.append(given)
        number = len(options)
        yield RunningTestbed(
            s3_endpoint=f"http://127.0.0.1:{number}", gcs_endpoint="", admin="", ca_certificate=None, pid=number
        )

    monkeypatch.setattr(testbeds_module, "launch_testbed", launch)
    return options


def test_a_directory_of_another_release_is_passed_over_and_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "testbed-1").mkdir()
    (tmp_path / "testbed-1" / ".buckettestbed").write_text('{"format": "buckettestbed directory", "version": 1}')
    plain, tls = points_of_scenario(
        "dataset", "client=boto3", "repeat=0", "target.tls=false,true", f"cache_dir={tmp_path}"
    )
    with Testbeds(keeps_objects=True) as testbeds:
        for point in (plain, tls):
            assert testbeds.target(point).endpoint is not None
        assert {path.name for path in tmp_path.iterdir()} == {"testbed-1", "testbed-2", "testbed-3"}
    assert capsys.readouterr().err.count(f"{tmp_path / 'testbed-1'} is of another release's testbed") == 1
    assert [path.name for path in (tmp_path / "testbed-1").iterdir()] == [".buckettestbed"]


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
