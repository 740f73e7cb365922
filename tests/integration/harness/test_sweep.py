"""Sweeps that work: a user's loader, every start method, two at once, and one that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from sweeps import SAMPLES, Workplace, new_workplace, read_results

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return new_workplace(tmp_path)


# All other sweeps fork, but for that of a client which does not survive it: it has a fork server.
@pytest.mark.parametrize(
    "methods", [("spawn",), pytest.param(("fork", "forkserver", "spawn"), marks=pytest.mark.nightly)]
)
def test_every_start_method_with_both_styles(place: Workplace, methods: tuple[str, ...]) -> None:
    done = place.run(
        "repeat=0", "client=Good,GoodIterable", f"dataloader.start_method={','.join(methods)}", "epochs=2",
        "dataloader.shuffle=true", "model=decode",
    )  # fmt: skip
    assert done.status == 0, done.err
    found = [(job["details"]["start_method"], job["details"]["style"]) for job in done.results["jobs"]]
    assert found == [(method, style) for method in methods for style in ("map", "iterable")]
    for job in done.results["jobs"]:
        assert job["verification"]["checked"] == 2 * SAMPLES
        assert job["figures"]["decode_s"]["value"] > 0
    assert done.directory is not None
    check_that_records_tell_warm_up_from_measurement(done.directory / "0" / "operations.jsonl")


def check_that_records_tell_warm_up_from_measurement(path: Path) -> None:
    """What a job of two epochs in two workers recorded."""
    lines = path.read_text().splitlines()
    fetches = [operation for operation in map(json.loads, lines) if operation["kind"] == "fetch"]
    samples = {(f["phase"], f["epoch"]): 0 for f in fetches}
    workers = {key: set() for key in samples}
    for fetch in fetches:
        samples[fetch["phase"], fetch["epoch"]] += fetch["samples"]
        workers[fetch["phase"], fetch["epoch"]].add(fetch["worker"])
    assert samples == {("warmup", -1): 4, ("measure", 0): SAMPLES, ("measure", 1): SAMPLES}
    assert set(map(frozenset, workers.values())) == {frozenset({0, 1})}, "both workers warmed up and measured"


@pytest.mark.parametrize(
    "clients", [("GoodIterable",), pytest.param(("Good", "GoodIterable"), marks=pytest.mark.nightly)], ids=len
)
def test_without_workers_and_with_workers_that_do_not_persist_for_long_enough(
    place: Workplace, clients: tuple[str, ...]
) -> None:
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


def test_auto_spares_a_client_that_does_not_survive_a_fork(place: Workplace) -> None:
    done = place.run("repeat=0", "client=NotForkSafe", "warmup_samples=0")
    assert done.status == 0, done.err
    assert done.job("NotForkSafe")["details"]["start_method"] == "forkserver"
    assert done.directory is not None
    recorded = (done.directory / "0" / "operations.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in recorded].count("fork_server") == 1
    # Two processes have torch, this one and the fork server: neither's is what the client added.
    figures = done.job("NotForkSafe")["figures"]
    assert 0 < figures["added_memory_mib"]["value"] < figures["peak_rss_mib"]["value"] / 2
    assert figures["requests_in_flight"]["value"] >= 0


def test_a_real_client_over_http_and_tls_and_under_faults(place: Workplace) -> None:
    # A user's profile and proxy must not get in the way of the testbed.
    environment = place.environment(AWS_PROFILE="no-such-profile", HTTP_PROXY="http://127.0.0.1:9", HTTPS_PROXY="x:9")
    strikes = "faults.rules=[],[{kind: error, status: 503, every: 3, operations: [get_object]}]"
    done = place.run("repeat=0", "client=boto3", "target.tls=false,true", strikes, environment=environment)
    assert done.status == 0, done.err
    jobs = done.results["jobs"]
    found = {(job["parameters"]["tls"], bool(job["parameters"]["faults.rules"])): job for job in jobs}
    assert len(jobs) == len(found) == 4
    for job in jobs:
        assert job["cache"]["state"] == "warm"
        assert job["versions"]["boto3"]
        assert job["verification"]["errors"] == job["verification"]["missing"] == 0
    for tls in (False, True):
        calm, struck = found[tls, False], found[tls, True]
        assert calm["figures"]["server_faults"]["value"] == 0
        assert calm["figures"]["server_requests"]["value"] >= SAMPLES
        assert calm["figures"]["read_amplification"]["value"] == pytest.approx(1.0, abs=0.01)
        assert struck["figures"]["server_faults"]["value"] >= SAMPLES // 3
        requests = [job["figures"]["server_requests"]["value"] for job in (calm, struck)]
        assert requests[1] - requests[0] == struck["figures"]["server_faults"]["value"], "boto3 asked again for each"
        assert struck["parameters"]["faults.rules"][0]["status"] == 503


def test_a_later_sweep_finds_the_data_made_and_refuses_what_is_not_as_described(place: Workplace) -> None:
    first = place.run("repeat=0", "client=Good", "data.prefix=mine")
    second = place.run("repeat=0", "client=Good", "data.prefix=mine", "+disambiguator=again")
    assert (first.status, second.status) == (0, 0), first.err + second.err
    assert f"0 of {SAMPLES} objects" in first.err
    assert f"0 of {SAMPLES} objects" not in second.err
    assert len(place.runs()) == 2
    assert second.job("Good")["disambiguator"] == "again"
    assert second.results["command"][-1] == "+disambiguator=again"
    found = place.run("repeat=0", "client=Good", "data.prefix=mine", "data.generate=false")
    assert found.status == 0, found.err
    wrong = place.run("repeat=0", "client=Good", "data.prefix=mine", "data.generate=false", "data.num_samples=25")
    assert wrong.status == 2
    assert f"add data.num_samples={SAMPLES}" in wrong.err
    absent = place.run("repeat=0", "client=Good", "data.prefix=other", "data.generate=false")
    assert absent.status == 2
    assert "other" in absent.err
    assert "Traceback" not in wrong.err + absent.err
    assert len(place.runs()) == 3


@pytest.mark.parametrize(
    ("repeats", "clients"), [(1, ("boto3",)), pytest.param(2, ("Good", "boto3"), marks=pytest.mark.nightly)]
)
def test_two_sweeps_at_once_do_not_disturb_each_other(place: Workplace, repeats: int, clients: tuple[str, ...]) -> None:
    sweeps = [place.start(f"repeat=range({repeats})", f"client={','.join(clients)}") for _ in range(2)]
    said = [sweep.communicate(timeout=200) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], said
    first, second = map(read_results, place.runs())
    assert first["run_id"] != second["run_id"]
    for results in (first, second):
        order = [(job["repeat"], job["client"], job["status"]) for job in results["jobs"]]
        assert order == [(repeat, client, "ok") for repeat in range(repeats) for client in clients]
        for job in results["jobs"]:
            assert job["verification"]["checked"] == SAMPLES
            if job["client"] == "boto3":
                assert job["figures"]["server_requests"]["value"] < 2 * SAMPLES, "the other sweep's are not counted"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_sweep_keeps_what_was_done(place: Workplace, number: signal.Signals) -> None:
    sweep = place.start("repeat=0", "client=Good,Hangs,GoodIterable")
    _wait_until(lambda: place.runs() and (place.runs()[-1] / "1" / "job.json").exists())
    sweep.send_signal(number)
    try:
        out, err = sweep.communicate(timeout=200)
    finally:
        sweep.kill()  # where the signal did not do what it should
    assert sweep.returncode == 130, err
    assert "Traceback" not in err
    assert "Good" in out, "the table of what was done"
    results = read_results(place.runs()[-1])
    assert [(job["client"], job["status"]) for job in results["jobs"]] == [("Good", "ok"), ("Hangs", "failed")]
    assert results["jobs"][1]["reason"] == "interrupted"
    assert results["interrupted"] is True
    assert results["jobs_planned"] == 3
    _wait_until(lambda: not place.left_over())


def test_a_killed_sweep_leaves_its_results_and_nothing_running(place: Workplace) -> None:
    sweep = place.start("repeat=0", "client=Good,Killed,NotForkSafe", "dataloader.num_workers=0,2")
    _wait_until(lambda: place.runs() and (place.runs()[-1] / "run_results.json").exists())
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.communicate(timeout=200)
    _wait_until(lambda: not place.left_over())
    assert [job["client"] for job in read_results(place.runs()[-1])["jobs"]][:1] == ["Good"]


def test_a_reader_that_goes_away_costs_no_result(place: Workplace) -> None:
    sweep = place.start("repeat=0", "client=Good")
    for stream in (sweep.stdout, sweep.stderr):
        assert stream is not None
        stream.close()
    assert sweep.wait(timeout=200) == 0
    assert [job["status"] for job in read_results(place.runs()[-1])["jobs"]] == ["ok"]


def test_a_missing_bucket_is_one_message(place: Workplace) -> None:
    from buckettestbed.launch import launch_testbed

    with launch_testbed(buckets=["there"]) as testbed:
        done = place.run(
            "repeat=0", "client=boto3", "target=s3", "target.bucket=not-there", "target.path_style=true",
            "target.anonymous=true", f"target.endpoint={testbed.s3_endpoint}",
        )  # fmt: skip
    assert done.status == 2
    assert "not-there" in done.err
    assert "Traceback" not in done.err
    assert place.runs() == []


def test_a_bucket_elsewhere_is_measured_by_the_same_path(place: Workplace) -> None:
    from buckettestbed.launch import launch_testbed

    environment = place.environment(
        AWS_ACCESS_KEY_ID="someone", AWS_SECRET_ACCESS_KEY="something", AWS_REGION="eu-west-1"
    )
    with launch_testbed(buckets=["there"]) as testbed:
        done = place.run(
            "repeat=0", "client=boto3", "target=s3", "target.bucket=there", "target.path_style=true",
            f"target.endpoint={testbed.s3_endpoint}", environment=environment,
        )  # fmt: skip
    assert done.status == 0, done.err
    job = done.job("boto3")
    assert job["figures"]["server_requests"]["value"] is None
    assert job["figures"]["server_requests"]["reason"]
    assert job["cache"]["state"] == "unknown"
    assert job["parameters"]["network"] is None


def _wait_until(condition: object, limit_s: float = 200.0) -> None:
    assert callable(condition)
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, "what was waited for never came"
        time.sleep(0.05)
