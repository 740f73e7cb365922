"""A dry run, and options of single clients: what a sweep would consist of."""

from __future__ import annotations

from pathlib import Path

from composition import swept_by_scenario
from stubbed_sweeps import StubbedHarness


def test_a_dry_run_tells_the_points_and_touches_nothing(harness: StubbedHarness) -> None:
    swept = ["run", "listing", "client=boto3,obstore", "repeat=range(3)", "names.count=100,200", "label=try"]
    status, out, err = harness.bucketbench(*swept, "--dry-run")
    assert (status, err, harness.worker.started, harness.testbeds) == (0, "", [], [])
    assert list(Path().iterdir()) == []
    lines = out.splitlines()
    assert lines[0] == "listing scenario: 12 jobs of boto3, obstore; nothing is run or made"
    assert "label: try" in lines
    assert "names.count: 100, 200" in lines
    assert "  3 x names.count=200 client=obstore" in lines
    assert "no earlier run" in lines[-1]


def test_a_dry_run_estimates_from_earlier_runs(harness: StubbedHarness) -> None:
    assert harness.run("listing", "client=boto3", "repeat=0").status == 0
    _, out, _ = harness.bucketbench("run", "listing", "client=boto3,obstore", "repeat=0,1", "--dry-run")
    assert "estimated from earlier runs; 1 of the points never ran" in out
    assert len(harness.runs("listing")) == 1


def test_what_would_be_refused_is_told_after_the_points(harness: StubbedHarness) -> None:
    status, out, err = harness.bucketbench("run", "listing", "client.requires=[no_such_package]", "--dry-run")
    assert (status, out.startswith("listing scenario:")) == (2, True)
    assert "no_such_package" in err


def test_a_dry_run_is_refused_for_whatever_the_sweep_would_be(harness: StubbedHarness) -> None:
    Path("taken").mkdir()
    for override, words in (
        ("hydra.sweeper.jobs_at_once=2", "would measure jobs at the same time"),
        ("sink.name=a,b", "sink cannot be swept"),
        ("label=a,b", "it marks the results of a whole run"),
        ("hydra.sweep.dir=taken", "exists already, and results are never overwritten"),
    ):
        status, out, err = harness.bucketbench("run", "listing", "client=boto3", "repeat=0", override, "--dry-run")
        assert (status, out.startswith("listing scenario:"), words in err) == (2, True, True), (override, err)


def test_a_single_job_has_no_dry_run(harness: StubbedHarness) -> None:
    for single in ("hydra.mode=RUN", "++hydra.mode='RUN'", "--run"):
        status, out, err = harness.bucketbench("run", "listing", "client=boto3", single, "--dry-run")
        assert (status, out, harness.worker.started) == (2, "", [])
        assert "--dry-run tells the jobs of a sweep" in err


def test_an_option_of_one_client_makes_it_several_contestants() -> None:
    points = swept_by_scenario(
        "dataset", "repeat=0,1", "client=boto3-threads,torchbucket-map",
        "+options_for.torchbucket-map.concurrency=8,16", "+options_for.boto3-threads.threads=4",
    )  # fmt: skip
    told = [
        (point["repeat"], point["client"], {key: value for key, value in point.items() if key.startswith("+")})
        for point in points
    ]
    variants = [
        ("boto3-threads", {"++client.options.threads": "4"}),
        ("torchbucket-map", {"++client.options.concurrency": "8"}),
        ("torchbucket-map", {"++client.options.concurrency": "16"}),
    ]
    assert [one[1:] for one in told[:3]] == variants
    assert len(told) == 6
    assert all(("1", *variant) in told for variant in variants)
