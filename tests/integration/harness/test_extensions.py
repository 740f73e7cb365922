"""A scenario and a client of a user's own, from a folder outside the repository, and sweeps by other launchers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sweeps import SAMPLES, Workplace, new_workplace

pytestmark = pytest.mark.timeout(300)


def bucketbench(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bucketbench.cli", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=240, check=False)


def test_a_scenario_a_client_and_a_sink_take_two_files_each(tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(Path(__file__).with_name("extension"), own, ignore=shutil.ignore_patterns("__pycache__"))
    files = sorted(str(path.relative_to(own)) for path in own.rglob("*") if path.is_file())
    assert files == [
        "client/waiting.yaml", "counting.py", "hydra/callbacks/counting.yaml", "rounds.yaml", "rounds/scenario.py",
        "waiting.py",
    ]  # fmt: skip
    done = bucketbench(
        tmp_path,
        "run",
        "rounds",
        "--multirun",
        "--config-dir",
        str(own),
        "repeat=0,1",
        "times=2,4",
        "hydra.sweep.subdir=job-${hydra.job.num}",
        "hydra/callbacks=[results,counting]",
    )
    assert done.returncode == 0, done.stderr
    (run,) = (path for path in (tmp_path / "multirun" / "rounds").iterdir() if path.is_dir())
    assert json.loads((run.parent / "pushed.json").read_text()) == [0, 1, 2, 3]
    results = json.loads((run / "run_results.json").read_bytes())
    order = [(job["repeat"], job["parameters"]["times"], job["client"]) for job in results["jobs"]]
    assert order == [(repeat, rounds, "waiting") for repeat in (0, 1) for rounds in (2, 4)]
    assert all(job["verification"]["checked"] == job["parameters"]["times"] for job in results["jobs"])
    assert {job["status"] for job in results["jobs"]} == {"ok"}
    assert "rounds/s" in done.stdout
    again = bucketbench(tmp_path, "report", "--config-dir", str(own), "--recompute", str(run))
    assert again.stdout.splitlines()[-8:] == done.stdout.splitlines()[-8:]
    wrong = bucketbench(tmp_path, "run", "rounds", "--config-dir", str(own), "times=0")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "times=0 cannot be used: expected a whole number from 1 to 100" in wrong.stderr


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return new_workplace(tmp_path)


LAUNCHERS = {"joblib": "hydra_plugins.hydra_joblib_launcher", "submitit_local": "hydra_plugins.hydra_submitit_launcher",
             "ray": "hydra_plugins.hydra_ray_launcher"}  # fmt: skip


@pytest.mark.parametrize(
    "launcher", ["joblib", *(pytest.param(name, marks=pytest.mark.nightly) for name in LAUNCHERS if name != "joblib")]
)
def test_another_launcher_runs_a_sweep_one_job_at_a_time(place: Workplace, launcher: str) -> None:
    if find_spec(LAUNCHERS[launcher]) is None:
        pytest.skip(f"{LAUNCHERS[launcher]} is not installed")
    done = place.run(f"hydra/launcher={launcher}", "repeat=0,1", "client=Good,GoodIterable")
    assert done.status == 0, done.err
    jobs = done.results["jobs"]
    order = [(job["repeat"], job["client"], job["status"]) for job in jobs]
    assert order == [(repeat, client, "ok") for repeat in (0, 1) for client in ("Good", "GoodIterable")]
    starts = [job["started_at"] for job in jobs]
    assert starts == sorted(starts)
    assert "Good " in done.out, "the table"


def test_a_single_job_without_a_sweep(place: Workplace) -> None:
    done = place.run("hydra.mode=RUN", "client=Good", "hydra.run.dir=alone")
    assert done.status == 0, done.err
    result = json.loads((place.directory / "alone" / "job_results.json").read_bytes())
    assert (result["status"], result["verification"]["checked"]) == ("ok", SAMPLES)
    failed = place.run("hydra.mode=RUN", "client=Missing", "hydra.run.dir=again")
    assert (failed.status, place.runs(), place.left_over()) == (1, [], [])


def test_jobs_at_the_same_time_on_one_machine_are_refused_unless_asked_for(place: Workplace) -> None:
    refused = place.run("hydra/launcher=joblib", "hydra.sweeper.jobs_at_once=2", "repeat=0,1", "client=Good")
    assert refused.status == 2
    assert "parallel_on_one_host" in refused.err
    asked = ["hydra.sweeper.jobs_at_once=null", "hydra.sweeper.parallel_on_one_host=true"]
    done = place.run("hydra/launcher=joblib", *asked, "hydra.launcher.n_jobs=2", "repeat=0,1", "client=Good")
    assert done.status == 0, done.err
    assert [job["status"] for job in done.results["jobs"]] == ["ok", "ok"]


@pytest.mark.parametrize("style", ["map", "iterable"])
def test_two_ranks_share_a_data_set(place: Workplace, style: str) -> None:
    done = place.run("repeat=0", f"client=torchbucket-{style}", "ranks=2", "epochs=2")
    assert done.status == 0, done.err
    (job,) = done.results["jobs"]
    assert done.directory is not None
    assert job["verification"] == {
        "checked": 2 * SAMPLES, "mismatched": 0, "missing": 0, "duplicated": 0, "errors": 0, "notes": [],
    }  # fmt: skip
    shares = []
    for rank in (0, 1):
        lines = (done.directory / "0" / "ranks" / str(rank) / "operations.jsonl").read_text().splitlines()
        operations = [operation for operation in map(json.loads, lines) if operation["phase"] == "measure"]
        assert {operation["rank"] for operation in operations} == {rank}
        shares.append(sum(o["samples"] for o in operations if o["kind"] == "fetch"))
    assert sum(shares) == 2 * SAMPLES
    assert min(shares) >= SAMPLES // 2
    assert job["figures"]["samples"]["value"] == 2 * SAMPLES


def test_a_job_fails_with_one_of_its_ranks(place: Workplace) -> None:
    done = place.run("repeat=0", "client=FailsOnRankOne", "ranks=2", "time_limit_s=60")
    assert done.status == 1
    (job,) = done.results["jobs"]
    assert job["status"] == "failed"
    assert "rank 1: " in job["reason"]
    assert "RuntimeError: rank 1 has no data" in job["reason"]
    assert place.left_over() == []


def test_a_client_set_up_in_two_ways_is_two_contestants(place: Workplace) -> None:
    done = place.run("client=torchbucket-map", "+client.options.concurrency=8,16", "repeat=0", "warmup_samples=0")
    assert done.status == 0, done.err
    first, second = done.results["jobs"]
    assert first["configuration"]["experiment"] == second["configuration"]["experiment"]
    assert first["configuration"]["client"] != second["configuration"]["client"]
    assert "torchbucket-map (concurrency=8)" in done.out.replace("\n", " ")


def test_hydras_own_options_work(tmp_path: Path) -> None:
    shown = bucketbench(tmp_path, "run", "dataset", "--cfg", "job", "epochs=7")
    assert (shown.returncode, "epochs: 7" in shown.stdout) == (0, True)
    assert "hydra_plugins.bucketbench" in bucketbench(tmp_path, "run", "dataset", "--cfg", "hydra").stdout
    assert "workload/none" in bucketbench(tmp_path, "run", "dataset", "--info", "defaults").stdout
    described = bucketbench(tmp_path, "run", "listing", "--help").stdout
    assert "torchbucket-sequential" in described
    (tmp_path / "short.yaml").write_text("defaults: [dataset, _self_]\nepochs: 9\n")
    named = bucketbench(tmp_path, "run", "dataset", "--config-dir", ".", "--config-name", "short", "--cfg", "job")
    assert "epochs: 9" in named.stdout
    completed = subprocess.run(
        [sys.executable, "-m", "bucketbench.cli", "-sc", "query=bash"],
        env={**os.environ, "COMP_LINE": "bucketbench run listing client=boto", "COMP_POINT": "100"},
        capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
    )  # fmt: skip
    assert completed.stdout.split() == ["client=boto3"]
    assert not (tmp_path / "multirun").exists()
