"""A measured process that hangs, and one with a fork server, in a real sweep: it goes on, and nothing is left running.

What a client does wrong within a process that comes to its end is in ``test_measured_clients.py``, what is left of a
process that was killed in ``test_measured_process.py``, and what a sweep makes of each end in ``tests/unit/sweep``.
"""

from __future__ import annotations

import json

import pytest
from sweeps import SAMPLES, Finished, Workplace, fetched, new_workplace

pytestmark = pytest.mark.timeout(300)

CANARY = "canary-4f1d8c2b7a"
CLIENTS = ["Hangs", "NotForkSafe"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return new_workplace(tmp_path_factory.mktemp("failing"))


@pytest.fixture(scope="module")
def finished(place: Workplace) -> Finished:
    environment = place.environment(
        SERVICE_TOKEN=f"token-{CANARY}",
        AWS_SECRET_ACCESS_KEY=f"aws-{CANARY}",
        AWS_SESSION_TOKEN=f"session-{CANARY}",
        AWS_PROFILE="no-such-profile",
    )
    return place.run(
        "repeat=0", "time_limit_s=25", f"client={','.join(CLIENTS)}", "dataloader.persistent_workers=false",
        environment=environment,
    )  # fmt: skip


def test_the_sweep_goes_on_and_the_failure_has_its_reason(finished: Finished) -> None:
    assert finished.status == 1, finished.err
    assert "Traceback" not in finished.err
    assert [job["client"] for job in finished.results["jobs"]] == CLIENTS
    job = finished.job("Hangs")
    assert job["status"] == "failed"
    assert "time limit" in job["reason"]
    assert "\n" not in job["reason"]


def test_a_client_that_does_not_survive_a_fork_has_a_fork_server(finished: Finished) -> None:
    job = finished.job("NotForkSafe")
    assert (job["status"], job["details"]["start_method"]) == ("ok", "forkserver")
    assert job["verification"]["checked"] == job["figures"]["samples"]["value"] == SAMPLES
    assert finished.directory is not None
    directory = finished.directory / str(CLIENTS.index("NotForkSafe"))
    records = (directory / "operations.jsonl").read_text().splitlines()
    assert [json.loads(record)["kind"] for record in records].count("fork_server") == 1
    assert fetched(directory) == {("warmup", -1): (4, {0, 1}), ("measure", 0): (SAMPLES, {0, 1})}
    # Two processes have torch, this one and the fork server: neither's is what the client added.
    figures = job["figures"]
    assert 0 < figures["added_memory_mib"]["value"] < figures["peak_rss_mib"]["value"] / 2
    assert figures["requests_in_flight"]["value"] >= 0


def test_the_log_shows_where_a_job_was_stuck(finished: Finished) -> None:
    assert finished.directory is not None
    log = (finished.directory / str(CLIENTS.index("Hangs")) / "benchmark.log").read_text()
    assert "sample_clients.py" in log
    assert "in __getitem__" in log, "in a worker"


def test_nothing_is_left_running(finished: Finished, place: Workplace) -> None:
    assert finished.status == 1
    assert place.left_over() == []


def test_no_secret_is_in_any_file(finished: Finished) -> None:
    assert finished.directory is not None
    searched = [path for path in finished.directory.rglob("*") if path.is_file()]
    assert len(searched) > 12
    assert [path for path in searched if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in finished.out + finished.err
    log = finished.directory / str(CLIENTS.index("Hangs")) / "benchmark.log"
    assert "authorised with [secret]" in log.read_text()
