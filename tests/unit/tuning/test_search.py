"""A search by Optuna over stubbed jobs: what it tries, what it takes, and what it says that being wrong would cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stubbed_sweeps import SAMPLES, StubbedHarness, leave_outcome, leave_records

from bucketbench.job.description import USAGE_FILE, Description
from bucketbench.records import UsageSample
from bucketbench.results.record import RunRecord

pytestmark = pytest.mark.timeout(300)

SPACE = ["client=torchbucket-map", "dataloader.num_workers=0,1,2,4,8", "+client.options.concurrency=8,16,32,64,128"]
SEARCH = ["hydra/sweeper=optuna", "hydra.sweeper.trials=14"]
_MIB = 1 << 20


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StubbedHarness:
    monkeypatch.chdir(tmp_path)
    return StubbedHarness(monkeypatch, serves=False)


class Landscape:
    """Jobs whose speed and memory are a function of their setting, on a machine that becomes slower and slower."""

    def __init__(self, speed: Callable[[int, int], float], memory_mib: Callable[[int, int], int]) -> None:
        self._speed, self._memory_mib = speed, memory_mib
        self.jobs: list[tuple[int, int | None]] = []

    def __call__(self, directory: Path) -> None:
        job = Description.read(directory).job
        workers, concurrency = job["loader"]["num_workers"], job["client"]["options"].get("concurrency")
        self.jobs.append((workers, concurrency))
        number = len(self.jobs)
        # A noise of 1 %, and a drift by which the last job takes twice as long as the first.
        slowness = (1 + number / 100) * (1 + 0.01 * (number * 7 % 5 - 2) / 2)
        leave_records(directory, wall_s=SAMPLES / self._speed(workers, concurrency or 64) * slowness)
        memory = self._memory_mib(workers, concurrency or 64) * _MIB
        usage = [UsageSample(at_s=at_s, cpu_s=at_s, rss_bytes=memory, processes=1) for at_s in (0.9, 1e4)]
        (directory / USAGE_FILE).write_text("".join(f"{json.dumps(sample.to_json())}\n" for sample in usage))
        leave_outcome(directory)


def landscape(**changes: Any) -> Landscape:
    """Best at 4 workers and 32 requests; each worker takes 100 MiB."""
    shapes: dict[str, Any] = {
        "speed": lambda workers, concurrency: 100 / (1 + abs(workers - 4) / 4) / (1 + abs(concurrency - 32) / 64),
        "memory_mib": lambda workers, concurrency: 100 + 100 * workers,
    }
    return Landscape(**{**shapes, **changes})


def tuning(harness: StubbedHarness) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((harness.runs("dataset")[-1] / "tuning.json").read_text())
    return found


@pytest.mark.nightly
def test_a_search_finds_the_best_setting_and_says_what_another_would_cost(harness: StubbedHarness) -> None:
    jobs = landscape()
    harness.worker.behaviours["torchbucket-map"] = jobs
    done = harness.run("dataset", *SEARCH, *SPACE)
    assert done.status == 0, done.err
    found = tuning(harness)
    assert found["best"]["setting"] == ["dataloader.num_workers=4", "+client.options.concurrency=32"]
    assert len(found["trials"]) == 14
    low, high, confidence = found["best_over_reference"]["interval"]
    # The reference has 2 workers and torchbucket's own 64 requests.
    assert low <= 2.25 <= high
    assert confidence >= 0.95
    assert "best: dataloader.num_workers=4 +client.options.concurrency=32: " in done.err
    assert "how sure: decided; to take the runner-up instead would cost " in done.err
    assert "of 14 settings tried within the limit, the one in the middle has " in done.err
    assert "to take it: client=torchbucket-map dataloader.num_workers=4 +client.options.concurrency=32" in done.err
    assert "torchbucket-map" in done.out  # the table of the last round
    # Each round is a run of its own, complete, and measures the reference before the others, in turns.
    runs = harness.runs("dataset")
    assert len(runs) == 5
    for run in runs:
        record = RunRecord.read(run)
        assert record is not None
        results = json.loads((run / "run_results.json").read_text())
        assert len(results["jobs"]) == record.jobs_planned
        assert record.varying == ("dataloader.num_workers", "client.options.concurrency")
    assert jobs.jobs[0] == (2, None)
    assert sorted(map(str, jobs.jobs[:5])) == sorted(map(str, jobs.jobs[5:10]))
    assert jobs.jobs[:5] != jobs.jobs[5:10]  # the same settings in another order


@pytest.mark.nightly
def test_the_same_seed_tries_the_same_and_another_others(harness: StubbedHarness) -> None:
    tried = []
    for seed in (0, 0, 1):
        jobs = landscape()
        harness.worker.behaviours["torchbucket-map"] = jobs
        few = ["hydra.sweeper.trials=4", "hydra.sweeper.repeats=1", f"hydra.sweeper.seed={seed}", "repeat=0"]
        assert harness.run("dataset", *SEARCH, *SPACE, *few).status == 0
        tried.append(jobs.jobs[:5])
    assert tried[0] == tried[1] != tried[2]


def test_a_search_is_a_run_a_round_and_the_table_of_the_last(harness: StubbedHarness) -> None:
    harness.worker.behaviours["torchbucket-map"] = landscape()
    few = ["hydra.sweeper.repeats=1", "hydra.sweeper.finalists=2", "repeat=0", "dataloader.num_workers=2,4"]
    done = harness.run("dataset", *SEARCH, SPACE[0], *few)
    assert done.status == 0, done.err
    found = tuning(harness)
    assert found["best"]["setting"] == ["dataloader.num_workers=4"]
    assert {tuple(trial["setting"]): trial["times_reference"] for trial in found["trials"]}[()] == 1
    assert "how sure: not known, with so few repeats of the finalists" in done.err
    assert "to take it: client=torchbucket-map dataloader.num_workers=4" in done.err
    assert "torchbucket-map" in done.out
    assert len(harness.worker.started) == 4  # what the reference has anyway is no setting of its own
    results = [json.loads((run / "run_results.json").read_text()) for run in harness.runs("dataset")]
    assert [(len(run["jobs"]), run["jobs_planned"], bool(run["ended_at"])) for run in results] == [(2, 2, True)] * 2


@pytest.mark.nightly
def test_the_best_within_the_limit_of_memory_is_taken(harness: StubbedHarness) -> None:
    jobs = landscape()
    harness.worker.behaviours["torchbucket-map"] = jobs
    every = ["dataloader.num_workers=2,3,4", "+client.options.concurrency=32,128", "repeat=range(6)"]
    few = ["hydra.sweeper.trials=6", "hydra.sweeper.repeats=1", "hydra.sweeper.finalists=2"]
    done = harness.run("dataset", *SEARCH, SPACE[0], *every, *few, "hydra.sweeper.memory_limit=400MiB")
    assert done.status == 0, done.err
    found = tuning(harness)
    assert found["best"]["setting"] == ["dataloader.num_workers=3", "+client.options.concurrency=32"]
    assert found["best"]["memory_mib"] == 400
    assert (found["over_limit"], len(found["trials"])) == (2, 4)  # every setting once; 4 workers need 500 MiB
    assert "2 more were over the limit of memory" in done.err
    assert "how sure: decided; to take the runner-up instead would cost " in done.err
    assert "to take it: client=torchbucket-map dataloader.num_workers=3 +client.options.concurrency=32" in done.err
    assert "torchbucket-map" in done.out  # the table of the last round
    assert jobs.jobs[0] == jobs.jobs[5] == (2, None)  # the reference begins each round
    assert len(harness.runs("dataset")) == 3


@pytest.mark.nightly
def test_a_search_without_a_setting_within_the_limit_says_so(harness: StubbedHarness) -> None:
    harness.worker.behaviours["torchbucket-map"] = landscape()
    done = harness.run("dataset", *SEARCH, *SPACE, "hydra.sweeper.memory_limit=50MiB", "hydra.sweeper.trials=4")
    assert done.status == 1
    assert "none of 4 settings can be taken: 4 over the limit of memory (50MiB), 0 without a result" in done.err


@pytest.mark.nightly
def test_settings_that_are_equal_are_told_to_be_undecided(harness: StubbedHarness) -> None:
    harness.worker.behaviours["torchbucket-map"] = landscape(speed=lambda workers, concurrency: 100.0)
    done = harness.run("dataset", *SEARCH, *SPACE, "hydra.sweeper.trials=4")
    assert done.status == 0, done.err
    assert "how sure: undecided; should the runner-up be better after all, this choice costs at most " in done.err


@pytest.mark.nightly
def test_a_setting_that_fails_is_left_out_and_the_others_go_on(harness: StubbedHarness) -> None:
    jobs = landscape()

    def some_fail(directory: Path) -> None:
        if Description.read(directory).job["loader"]["num_workers"] == 4:
            leave_records(directory)
            leave_outcome(directory, reason="there is no room")
        else:
            jobs(directory)

    harness.worker.behaviours["torchbucket-map"] = some_fail
    every = ["hydra.sweeper.trials=100", "dataloader.num_workers=1,2,4", "+client.options.concurrency=8,32"]
    done = harness.run("dataset", *SEARCH, SPACE[0], *every)
    assert done.status == 0, done.err
    found = tuning(harness)
    assert found["best"]["setting"] == ["dataloader.num_workers=2", "+client.options.concurrency=32"]
    assert len(found["trials"]) == 6  # the whole space, each once
    assert "2 of them failed" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hydra.sweeper.params=null", "client=torchbucket-map"], "has nothing to search: give a key several values"),
        ([*SPACE, "dataloader.batch_size=interval(1,8)"], "a sweep needs a list of values"),
        pytest.param([*SPACE, "dataloader.batch_size=8,0"], "batch_size", marks=pytest.mark.nightly),
        ([*SPACE, "hydra.sweeper.trials=0"], "hydra.sweeper.trials=0: expected a whole number from 1"),
        ([*SPACE, "hydra.sweeper.memory_limit=2G"], "hydra.sweeper.memory_limit: '2G'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(
    harness: StubbedHarness, arguments: list[str], said: str
) -> None:
    done = harness.run("dataset", "hydra/sweeper=optuna", *arguments)
    assert done.status == 2
    assert said in done.err
    assert harness.worker.started == []
    assert harness.runs("dataset") == []


@pytest.mark.nightly
def test_a_figure_that_the_scenario_lacks_is_told_with_those_it_has(harness: StubbedHarness) -> None:
    harness.worker.behaviours["torchbucket-map"] = landscape()
    done = harness.run("dataset", *SEARCH, *SPACE, "hydra.sweeper.figure=speed", "hydra.sweeper.trials=1")
    assert done.status == 1
    assert "the scenario dataset has no figure speed; it has: " in done.err
