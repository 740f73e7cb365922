"""What a sweep prepares before its first job, on testbeds that serve. Nothing is measured here."""

from __future__ import annotations

from pathlib import Path

import pytest
from composition import points_of_scenario
from stubbed_sweeps import StubbedHarness

from bucketbench.job.testbeds import Testbeds
from bucketbench.scenarios import find_scenario
from buckettestbed.launch import launch_testbed

SAMPLES = 24
SMALL = [f"data.num_samples={SAMPLES}", "data.sample_size=4KiB", "repeat=0", "client=boto3"]
NAMES = 300


def test_a_later_sweep_finds_the_data_and_refuses_what_is_not_as_described(
    serving_harness: StubbedHarness,
) -> None:
    mine = [*SMALL, "data.prefix=mine"]
    first = serving_harness.run("dataset", *mine)
    second = serving_harness.run("dataset", *mine, "data.generate=false", "+disambiguator=again")
    assert (first.status, second.status) == (0, 0), first.err + second.err
    assert f"0 of {SAMPLES} objects" in first.err
    assert f"0 of {SAMPLES} objects" not in second.err
    assert len(serving_harness.runs("dataset")) == 2
    assert second.job("boto3")["disambiguator"] == "again"
    assert second.results["command"][-1] == "+disambiguator=again"
    listed = [Path(job.description.job["samples_file"]).read_text() for job in serving_harness.worker.started]
    assert listed[0] == listed[1]
    assert len(listed[0].splitlines()) == SAMPLES
    wrong = serving_harness.run("dataset", *mine, "data.generate=false", "data.num_samples=25")
    assert wrong.status == 2
    assert f"add data.num_samples={SAMPLES}" in wrong.err
    absent = serving_harness.run("dataset", *SMALL, "data.prefix=other", "data.generate=false")
    assert absent.status == 2
    assert "other" in absent.err
    assert "Traceback" not in wrong.err + absent.err
    assert len(serving_harness.runs("dataset")) == 2


def test_two_sweeps_at_once_have_testbeds_and_data_of_their_own(tmp_path: Path) -> None:
    (point,) = points_of_scenario("dataset", *SMALL, f"cache_dir={tmp_path / 'cache'}")
    with Testbeds(keeps_objects=True) as first, Testbeds(keeps_objects=True) as second:
        jobs = []
        for name, testbeds in (("first", first), ("second", second)):
            (tmp_path / name).mkdir()
            preparation = find_scenario("dataset").prepared_in(tmp_path / name, testbeds)
            preparation.prepare(point)
            jobs.append(preparation.job(point))
        assert jobs[0].target.endpoint != jobs[1].target.endpoint
        assert jobs[0].admin_url != jobs[1].admin_url, "each counts its own requests"
        counts = [testbeds.testbed(point).object_counts()["bucketbench"] for testbeds in (first, second)]
        assert counts[0] == counts[1] > SAMPLES, "the samples, and the manifest"


def test_another_bucket_is_prepared_and_measured_by_the_same_path(
    serving_harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something", "AWS_REGION": "eu-west-1"}
    for name, value in account.items():
        monkeypatch.setenv(name, value)
    with launch_testbed(buckets=["there"]) as testbed:
        elsewhere = ["target=s3", "target.path_style=true", f"target.endpoint={testbed.s3_endpoint}"]
        missing = serving_harness.run("dataset", *SMALL, *elsewhere, "target.bucket=not-there")
        assert missing.status == 2
        assert "not-there" in missing.err
        assert "Traceback" not in missing.err
        assert serving_harness.runs("dataset") == []

        there = [*elsewhere, "target.bucket=there"]
        done = serving_harness.run("dataset", *SMALL, *there)
        assert done.status == 0, done.err
        (started,) = serving_harness.worker.started
        assert started.description.job["target"]["endpoint"] == testbed.s3_endpoint
        assert account.items() <= started.environment.items(), "clients find the account as ever"
        job = done.job("boto3")
        assert job["figures"]["server_requests"]["value"] is None
        assert job["figures"]["server_requests"]["reason"]
        assert job["cache"]["state"] == "unknown"
        assert job["parameters"]["network"] is None

        written = testbed.counts()["requests"]["put_object"]
        listing = ["client=boto3", "repeat=0", f"names.count={NAMES}", *there]
        refused = serving_harness.run("listing", *listing)
        assert refused.status == 2
        assert refused.err.count("\n") == 1
        words = f"has no object, and the scenario lists {NAMES} there: names.generate=true writes them"
        assert words in refused.err
        assert testbed.counts()["requests"]["put_object"] == written
        done = serving_harness.run("listing", *listing, "names.generate=true")
        assert done.status == 0, done.err
        assert testbed.counts()["requests"]["put_object"] == written + NAMES + 10, "and ten to warm up with"
    job = done.job("boto3")
    assert job["figures"]["pages_per_listing"]["value"] is None
    assert job["parameters"]["network"] is None
