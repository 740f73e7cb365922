"""Real sweeps: spawned workers, TLS and faults, two at once, and what an interruption or a kill leaves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from finished_sweeps import read_results
from sweeps import SAMPLES, Workplace, fetched, new_workplace

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return new_workplace(tmp_path)


@pytest.mark.nightly
def test_every_start_method_with_both_styles(place: Workplace) -> None:
    done = place.run(
        "repeat=0", "client=Good,GoodIterable", "dataloader.start_method=fork,forkserver,spawn", "epochs=2",
        "dataloader.shuffle=true", "model=decode",
    )  # fmt: skip
    assert done.status == 0, done.err
    found = [(job["details"]["start_method"], job["details"]["style"]) for job in done.results["jobs"]]
    methods = ("fork", "forkserver", "spawn")
    assert found == [(method, style) for method in methods for style in ("map", "iterable")]
    for job in done.results["jobs"]:
        assert job["verification"]["checked"] == 2 * SAMPLES
        assert job["figures"]["decode_s"]["value"] > 0
    assert done.directory is not None
    for number in range(len(found)):
        both = {0, 1}
        assert fetched(done.directory / str(number)) == {
            ("warmup", -1): (4, both), ("measure", 0): (SAMPLES, both), ("measure", 1): (SAMPLES, both),
        }  # fmt: skip


# All other sweeps fork, but for that of a client which does not survive it: it has a fork server.
def test_a_worker_that_is_spawned(place: Workplace) -> None:
    done = place.run(
        "repeat=0", "client=Good", "dataloader.start_method=spawn", "dataloader.num_workers=1", "epochs=2",
        "dataloader.shuffle=true", "model=decode",
    )  # fmt: skip
    assert done.status == 0, done.err
    job = done.job("Good")
    assert (job["details"]["start_method"], job["details"]["style"]) == ("spawn", "map")
    assert job["verification"]["checked"] == 2 * SAMPLES
    assert job["figures"]["decode_s"]["value"] > 0
    assert done.directory is not None
    assert fetched(done.directory / "0") == {
        ("warmup", -1): (4, {0}), ("measure", 0): (SAMPLES, {0}), ("measure", 1): (SAMPLES, {0}),
    }  # fmt: skip


@pytest.mark.nightly  # On each commit: without workers in test_measured_clients.py, not persistent with the failures.
def test_without_workers_and_with_workers_that_do_not_persist_for_long_enough(place: Workplace) -> None:
    clients = ("Good", "GoodIterable")
    done = place.run(
        "repeat=0", f"client={','.join(clients)}", "dataloader.num_workers=0,2", "dataloader.persistent_workers=false",
        "epochs=auto", "min_measured_s=0.5",
    )  # fmt: skip
    assert done.status == 0, done.err
    assert [job["details"]["start_method"] for job in done.results["jobs"]] == [
        method for method in ("none", "fork") for _ in clients
    ]
    for job in done.results["jobs"]:
        figures = job["figures"]
        assert figures["wall_s"]["value"] >= 0.5
        epochs, rest = divmod(job["verification"]["checked"], SAMPLES)
        assert rest == 0
        assert epochs > 1
        assert figures["samples"]["value"] == epochs * SAMPLES
        assert job["parameters"]["epochs"] == "auto"


def test_a_real_client_over_tls_and_under_faults(place: Workplace) -> None:
    # A user's profile and proxy must not get in the way of the testbed.
    environment = place.environment(AWS_PROFILE="no-such-profile", HTTP_PROXY="http://127.0.0.1:9", HTTPS_PROXY="x:9")
    strikes = "faults.rules=[],[{kind: error, status: 503, every: 3, operations: [get_object]}]"
    testbed = ["target.tls=true", "target.opaque_etags=true"]
    done = place.run("repeat=0", "client=boto3", *testbed, strikes, environment=environment)
    assert done.status == 0, done.err
    calm, struck = done.results["jobs"]
    for job in (calm, struck):
        assert job["parameters"]["tls"] is job["parameters"]["target.opaque_etags"] is True
        assert job["cache"]["state"] == "warm"
        assert job["versions"]["boto3"]
        assert job["verification"]["errors"] == job["verification"]["missing"] == 0
    assert calm["figures"]["server_faults"]["value"] == 0
    assert calm["figures"]["server_requests"]["value"] >= SAMPLES
    assert calm["figures"]["read_amplification"]["value"] == pytest.approx(1.0, abs=0.01)
    assert struck["figures"]["server_faults"]["value"] >= SAMPLES // 3
    requests = [job["figures"]["server_requests"]["value"] for job in (calm, struck)]
    assert requests[1] - requests[0] == struck["figures"]["server_faults"]["value"], "boto3 asked again for each"
    assert struck["parameters"]["faults.rules.0.status"] == 503


@pytest.mark.nightly  # On each commit their testbeds, directories and data sets are, in test_preparation.py.
def test_two_sweeps_at_once_do_not_disturb_each_other(place: Workplace) -> None:
    clients = ("Good", "boto3")
    sweeps = [place.start("repeat=range(2)", f"client={','.join(clients)}") for _ in range(2)]
    said = [sweep.communicate(timeout=200) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], said
    first, second = map(read_results, place.runs())
    assert first["run_id"] != second["run_id"]
    for results in (first, second):
        order = [(job["repeat"], job["client"], job["status"]) for job in results["jobs"]]
        assert order == [(repeat, client, "ok") for repeat in range(2) for client in clients]
        for job in results["jobs"]:
            assert job["verification"]["checked"] == SAMPLES
            if job["client"] == "boto3":
                assert job["figures"]["server_requests"]["value"] < 2 * SAMPLES, "the other sweep's are not counted"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_sweep_leaves_its_results_and_nothing_running(place: Workplace, number: signal.Signals) -> None:
    sweep = place.start("repeat=0", "client=Hangs,Good")
    _wait_until(lambda: place.runs() and (place.runs()[-1] / "0" / "progress.json").exists())
    sweep.send_signal(number)
    try:
        _, err = sweep.communicate(timeout=200)
    finally:
        sweep.kill()  # where the signal did not do what it should
    assert sweep.returncode == 130, err
    assert "Traceback" not in err
    results = read_results(place.runs()[-1])
    assert [(job["client"], job["reason"]) for job in results["jobs"]] == [("Hangs", "interrupted")]
    assert (results["interrupted"], results["jobs_planned"]) == (True, 2)
    _wait_until(lambda: not place.left_over())


def test_a_killed_sweep_leaves_its_results_and_nothing_running(place: Workplace) -> None:
    sweep = place.start("repeat=0", "client=Good,HangsInOneSession")
    _wait_until(lambda: place.runs() and (place.runs()[-1] / "1" / "progress.json").exists())
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.communicate(timeout=200)
    _wait_until(lambda: not place.left_over())
    assert [job["client"] for job in read_results(place.runs()[-1])["jobs"]] == ["Good"]


def _wait_until(condition: object, limit_s: float = 200.0) -> None:
    assert callable(condition)
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, "what was waited for never came"
        time.sleep(0.05)
