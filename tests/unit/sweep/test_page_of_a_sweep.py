"""The page that a sweep leaves beside its results, and that it costs neither these nor the status."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stubbed_sweeps import StubbedHarness

from bucketbench.errors import ResultsError
from bucketbench.report.html import svg
from bucketbench.sweep.finish import PAGE_FILE

SMALL = ("repeat=0", "client=boto3,torchbucket-map")


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubbedHarness:
    monkeypatch.chdir(tmp_path)
    return StubbedHarness(monkeypatch, serves=False)


def test_a_sweep_leaves_a_page_and_says_where(harness: StubbedHarness) -> None:
    done = harness.run("dataset", *SMALL, page=True)
    assert done.status == 0, done.err
    assert done.directory is not None
    page = (done.directory / PAGE_FILE).read_text(encoding="utf-8")
    assert "boto3" in page
    assert "bucketbench run dataset repeat=0 client=boto3,torchbucket-map" in page
    assert f"charts: {done.directory / PAGE_FILE}" in done.err
    assert "still runs" not in page


def test_none_is_written_where_none_is_wanted(harness: StubbedHarness) -> None:
    done = harness.run("dataset", *SMALL)
    assert done.status == 0, done.err
    assert done.directory is not None
    assert not (done.directory / PAGE_FILE).exists()
    assert PAGE_FILE not in done.err


def test_without_its_packages_the_sweep_is_as_good(harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = harness.run("dataset", *SMALL, page=True)
    assert done.status == 0, done.err
    assert f"no {PAGE_FILE}: an HTML report needs" in done.err
    assert len(done.jobs) == 2


def test_a_chart_that_cannot_be_drawn_costs_the_page_alone(
    harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spec: object) -> str:
        raise ValueError("no more ink")

    import vl_convert

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", fail)
    with pytest.raises(ResultsError, match="could not be drawn: no more ink"):
        svg.render_svg({})
    done = harness.run("dataset", *SMALL, page=True)
    assert done.status == 0, done.err
    assert f"no {PAGE_FILE}: a chart of the report could not be drawn: no more ink" in done.err
