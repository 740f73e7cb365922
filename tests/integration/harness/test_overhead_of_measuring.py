"""The measurement of what measuring costs takes passes of both sides by turns, and as many as it is asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from buckettestbed.launch import launch_testbed

UTILS = Path(__file__).parents[3] / "utils"

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


def test_both_loops_are_taken_by_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(UTILS), *sys.path])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testbed")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testbed")
    from measure_overhead import BUCKET, client, dataset_job, listing_job, put, target_of
    from overhead_measurement.loops import pairs

    with launch_testbed(buckets=[BUCKET], log_requests=100_000) as testbed:
        samples = put(testbed, target_of(testbed, "few/"), tmp_path / "samples.jsonl", 128, 1024)
        for name in ("torchbucket-map", "torchbucket-iterable"):
            job = dataset_job(client("dataset", name), target_of(testbed, "few/"), samples, batch_size=32)
            taken = pairs(job, tmp_path / name, 4)
            assert len(taken) == 4
            assert min(seconds for pair in taken for seconds in pair) > 0
        testbed.reset_counts()
        job = listing_job(testbed, client("listing", "boto3"), 3_000)
        assert len(pairs(job, tmp_path / "listing", 4)) == 4
        pages = [one for one in testbed.requests() if one.key == job.target.prefix]
        assert len(pages) == 2 * 4 * 3, "of both sides, four listings of three pages"
