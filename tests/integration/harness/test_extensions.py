"""A scenario and a client of a user's own, from a folder outside the repository; other launchers; several ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from finished_sweeps import NO_PAGE
from rank_shares import check_that_ranks_shared
from sweeps import SAMPLES, Workplace, new_workplace

pytestmark = pytest.mark.timeout(300)


def bucketbench(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bucketbench.cli", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a scenario, a client and a sink of a user's own, which need no torch."""
    folder = tmp_path / "own"
    shutil.copytree(Path(__file__).with_name("extension"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def results_in(directory: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The directory of the one sweep of the user's scenario, and its jobs."""
    (run,) = (path for path in (directory / "multirun" / "rounds").iterdir() if path.is_dir())
    return run, json.loads((run / "run_results.json").read_bytes())["jobs"]


def test_a_scenario_a_client_and_a_sink_take_two_files_each_and_are_measured(own: Path, tmp_path: Path) -> None:
    files = sorted(str(path.relative_to(own)) for path in own.rglob("*") if path.is_file())
    assert files == [
        "client/waiting.yaml", "counting.py", "hydra/callbacks/counting.yaml", "rounds.yaml", "rounds/scenario.py",
        "waiting.py",
    ]  # fmt: skip
    done = bucketbench(
        tmp_path, "run", "rounds", "--config-dir", str(own), "repeat=0", "times=4",
        "hydra/callbacks=[results,counting]", NO_PAGE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run, (job,) = results_in(tmp_path)
    assert json.loads((run.parent / "pushed.json").read_text()) == [0]
    assert (job["client"], job["status"], job["verification"]["checked"]) == ("waiting", "ok", 4)
    assert "rounds/s" in done.stdout
    again = bucketbench(tmp_path, "report", "--config-dir", str(own), "--recompute", str(run))
    assert again.stdout.splitlines()[-8:] == done.stdout.splitlines()[-8:]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return new_workplace(tmp_path)


LAUNCHERS = {"joblib": "hydra_plugins.hydra_joblib_launcher", "submitit_local": "hydra_plugins.hydra_submitit_launcher",
             "ray": "hydra_plugins.hydra_ray_launcher"}  # fmt: skip


@pytest.mark.parametrize(
    "launcher", ["joblib", *(pytest.param(name, marks=pytest.mark.nightly) for name in LAUNCHERS if name != "joblib")]
)
def test_another_launcher_runs_a_sweep_one_job_at_a_time(own: Path, tmp_path: Path, launcher: str) -> None:
    if find_spec(LAUNCHERS[launcher]) is None:
        pytest.skip(f"{LAUNCHERS[launcher]} is not installed")
    done = bucketbench(
        tmp_path,
        "run",
        "rounds",
        "--config-dir",
        str(own),
        f"hydra/launcher={launcher}",
        "repeat=0,1",
        "times=2",
        NO_PAGE,
    )
    assert done.returncode == 0, done.stderr
    _, jobs = results_in(tmp_path)
    assert [(job["repeat"], job["client"], job["status"]) for job in jobs] == [
        (repeat, "waiting", "ok") for repeat in (0, 1)
    ]
    starts = [job["started_at"] for job in jobs]
    assert starts == sorted(starts)
    assert "waiting " in done.stdout, "the table"


@pytest.mark.nightly
def test_jobs_run_at_the_same_time_where_that_is_asked_for(place: Workplace) -> None:
    asked = ["hydra.sweeper.jobs_at_once=null", "hydra.sweeper.parallel_on_one_host=true"]
    done = place.run("hydra/launcher=joblib", *asked, "hydra.launcher.n_jobs=2", "repeat=0,1", "client=Good")
    assert done.status == 0, done.err
    assert [job["status"] for job in done.results["jobs"]] == ["ok", "ok"]


# On each commit the ranks are in test_ranks_of_a_job.py, and those that torchrun starts in test_dcp_sweep.py.
@pytest.mark.nightly
def test_two_ranks_share_a_data_set_and_a_job_fails_with_one_of_them(place: Workplace) -> None:
    clients = ["torchbucket-iterable", "FailsOnRankOne"]
    done = place.run("repeat=0", f"client={','.join(clients)}", "ranks=2", "epochs=2", "time_limit_s=120")
    assert done.status == 1, done.err
    check_first_job(done.job("torchbucket-iterable"), done.directory)
    failed = done.job("FailsOnRankOne")
    assert failed["status"] == "failed"
    assert "rank 1: " in failed["reason"]
    assert "RuntimeError: rank 1 has no data" in failed["reason"]
    assert place.left_over() == []


@pytest.mark.nightly  # On each commit the order of a rank's batches is checked by itself, in test_metering.py.
def test_two_ranks_share_a_map_data_set(place: Workplace) -> None:
    done = place.run("repeat=0", "client=torchbucket-map", "ranks=2", "epochs=2")
    assert done.status == 0, done.err
    check_first_job(done.job("torchbucket-map"), done.directory)


def check_first_job(job: dict[str, Any], run: Path | None) -> None:
    assert run is not None
    check_that_ranks_shared(run / "0", job["verification"], samples=SAMPLES)
    assert job["figures"]["samples"]["value"] == 2 * SAMPLES
