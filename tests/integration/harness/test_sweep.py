"""Sweeps with a real client over TLS and under faults, two at once, and what an interruption or a kill leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from finished_sweeps import NO_PAGE, read_results
from stubbed_sweeps import StubbedHarness
from sweeps import MARKER, SAMPLES, SMALL, Workplace, fetched, left_over, new_workplace

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


def test_a_real_client_over_tls_and_under_faults(
    measuring_apart: StubbedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A user's profile and proxy must not get in the way of the testbed.
    of_a_user = {"AWS_PROFILE": "no-such-profile", "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "x:9"}
    for name, value in of_a_user.items():
        monkeypatch.setenv(name, value)
    strikes = "faults.rules=[{kind: error, status: 503, every: 3, operations: [get_object]}]"
    testbed = ["target.tls=true", "target.opaque_etags=true"]
    done = measuring_apart.run("dataset", *SMALL, "repeat=0", "client=boto3", "warmup_samples=0", *testbed, strikes)
    assert done.status == 0, done.err
    (job,) = done.jobs
    assert job["parameters"]["tls"] is job["parameters"]["target.opaque_etags"] is True
    assert job["parameters"]["faults.rules.0.status"] == 503
    assert (job["details"]["start_method"], job["cache"]["state"]) == ("fork", "warm")
    assert job["versions"]["boto3"]
    assert job["verification"]["errors"] == job["verification"]["missing"] == 0
    figures = {name: figure["value"] for name, figure in job["figures"].items()}
    assert figures["server_faults"] >= SAMPLES // 3
    assert figures["server_requests"] == SAMPLES + figures["server_faults"], "boto3 asked again for each"
    assert figures["read_amplification"] == pytest.approx(1.0, abs=0.05)
    assert done.directory is not None
    assert fetched(done.directory / "0") == {("measure", 0): (SAMPLES, {0, 1})}


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


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """A directory in which sweeps of the scenario in ``extension/`` are started, which needs no torch."""

    directory: Path

    def start(self, *clients: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "bucketbench.cli",
            "run",
            "rounds",
            "--config-dir",
            str(self.directory / "own"),
        ]
        return subprocess.Popen(
            [*command, "repeat=0", "times=2", NO_PAGE, f"client={','.join(clients)}"],
            cwd=self.directory,
            env={**os.environ, MARKER: self.marker, "BUCKETBENCH_TEST_HANGS": str(self.hangs)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def marker(self) -> str:
        return f"marker-of-{self.directory}"

    @property
    def hangs(self) -> Path:
        """What is there as soon as a client hangs."""
        return self.directory / "hangs"

    def run(self) -> Path:
        """The directory of the one sweep."""
        (found,) = (path for path in (self.directory / "multirun" / "rounds").iterdir() if path.is_dir())
        return found


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    own, here = tmp_path / "own", Path(__file__).parent
    shutil.copytree(here / "extension", own, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(here / "sample_waiters.py", own)
    for name in ("Hangs", "HangsInOneSession"):
        (own / "client" / f"{name}.yaml").write_text(f"name: {name}\n_target_: sample_waiters.{name}\n")
    return Rounds(directory=tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_sweep_leaves_its_results_and_nothing_running(rounds: Rounds, number: signal.Signals) -> None:
    sweep = rounds.start("Hangs", "waiting")
    _wait_until(rounds.hangs.exists)
    sweep.send_signal(number)
    try:
        _, err = sweep.communicate(timeout=200)
    finally:
        sweep.kill()  # where the signal did not do what it should
    assert sweep.returncode == 130, err
    assert "Traceback" not in err
    results = read_results(rounds.run())
    assert [(job["client"], job["reason"]) for job in results["jobs"]] == [("Hangs", "interrupted")]
    assert (results["interrupted"], results["jobs_planned"]) == (True, 2)
    _wait_until(lambda: not left_over(rounds.marker))


def test_a_killed_sweep_leaves_its_results_and_nothing_running(rounds: Rounds) -> None:
    sweep = rounds.start("waiting", "HangsInOneSession")
    _wait_until(rounds.hangs.exists)
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.communicate(timeout=200)
    _wait_until(lambda: not left_over(rounds.marker))
    assert [job["client"] for job in read_results(rounds.run())["jobs"]] == ["waiting"]


def _wait_until(condition: object, limit_s: float = 200.0) -> None:
    assert callable(condition)
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, "what was waited for never came"
        time.sleep(0.05)
