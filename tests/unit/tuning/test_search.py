"""A search by Optuna over stubbed jobs: what it tries, what it takes, and what it says that being wrong would cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from stubbed_sweeps import SAMPLES, StubbedHarness, leave_outcome, leave_records

from bucketbench.job.description import USAGE_FILE, Component, Description
from bucketbench.records import UsageSample
from bucketbench.results.record import RunRecord
from bucketbench.sweep import preflight

pytestmark = pytest.mark.timeout(900)  # against a hang: a search has some 60 jobs

SPACE = ["client=torchbucket-map", "dataloader.num_workers=0,1,2,4,8", "+client.options.concurrency=8,16,32,64,128"]
TWO = ["client=torchbucket-map", "dataloader.num_workers=2,4"]  # two settings, where it does not matter which
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
    few = ["hydra.sweeper.repeats=1", "hydra.sweeper.finalists=2", "repeat=0"]
    done = harness.run("dataset", *SEARCH, *TWO, *few)
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
        ([*TWO, "dataloader.batch_size=interval(1,8)"], "a sweep needs a list of values"),
        pytest.param([*SPACE, "dataloader.batch_size=8,0"], "batch_size", marks=pytest.mark.nightly),
        ([*TWO, "hydra.sweeper.trials=0"], "hydra.sweeper.trials=0: expected a whole number from 1"),
        ([*TWO, "hydra.sweeper.memory_limit=2G"], "hydra.sweeper.memory_limit: '2G'"),
        ([*TWO, "hydra.sweeper.figure=peak_rss_mib"], "expected a figure of the scenario dataset that is the better"),
        ([*TWO, "hydra.sweeper.memory_figure=wall_s"], "memory_figure=wall_s: expected a figure of the scenario"),
        ([*TWO, "+hydra.sweeper.trial=3"], "no option trial: did you mean trials?"),
        ([*TWO, "label=a,b"], "label=a,b: it marks the results of a whole run"),
        ([*TWO, "cache_dir=a,b"], "two points of the sweep measure the client 'torchbucket-map' with the same"),
        ([*TWO, "repeat=0,x"], "repeat=x cannot be used"),
        ([*TWO, "sink=dynamodb", "sink.table=a-table", "sink.create=true,false"], "sink cannot be swept"),
        ([*TWO, "+options_for.boto3.threads=2,4"], "options_for.boto3.threads is of a client that is not measured"),
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


def test_a_dry_run_tells_what_is_searched_and_what_it_would_be_refused_for(harness: StubbedHarness) -> None:
    searched = ["run", "listing", "hydra/sweeper=optuna", "client=boto3,obstore", "names.count=1k,2k", "label=try"]
    status, out, err = harness.bucketbench(*searched, "hydra.sweeper.jobs_at_once=2", "--dry-run")
    lines = out.splitlines()
    assert lines[:4] == [
        "listing scenario: a search of 4 of 4 settings for the highest names_per_s; nothing is run or made",
        "label: try", "client: boto3, obstore", "names.count: 1k, 2k",
    ]  # fmt: skip
    # Four settings and the reference twice; three finalists and the reference six times.
    assert lines[4].startswith("at most 34 jobs in 2 rounds")
    assert "no earlier run" in lines[-1]
    assert (status, "jobs_at_once=2" in err) == (2, True)
    assert list(Path().iterdir()) == []


def test_options_of_one_client_are_searched_and_what_cannot_be_is_left_out(
    harness: StubbedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(clients: Sequence[Component], **where: Any) -> list[str | None]:
        return [f"no {one.options}" if one.options.get("concurrency") == 8 else None for one in clients]

    monkeypatch.setattr(preflight, "wrong_options", wrong)
    few = ["hydra.sweeper.repeats=1", "hydra.sweeper.finalists=2", "repeat=0"]
    own = ["client=torchbucket-map,boto3", "+options_for.torchbucket-map.concurrency=16,32", "dataloader.num_workers=4"]
    done = harness.run("dataset", *SEARCH, *own, *few)
    assert done.status == 0, done.err
    first = {
        (job.client, job.description.job["client"]["options"].get("concurrency")) for job in harness.worker.started
    }
    assert first == {("torchbucket-map", None), ("torchbucket-map", 16), ("torchbucket-map", 32), ("boto3", None)}
    assert "3 of 3 settings to try" in done.err
    # Together with another client alone: each value by itself can be used.
    together = ["client=torchbucket-map,boto3", "++client.options.concurrency=16,32"]

    def boto3_has_none(clients: Sequence[Component], **where: Any) -> list[str | None]:
        return ["no such option" if one.options and one.name == "boto3" else None for one in clients]

    monkeypatch.setattr(preflight, "wrong_options", boto3_has_none)
    done = harness.run("dataset", *SEARCH, *together, *few)
    assert done.status == 0, done.err
    assert "left out: client=boto3 ++client.options.concurrency=16: client=boto3, client.options: no such" in done.err
    assert {job.client for job in harness.worker.started[7:]} == {"torchbucket-map"}


def test_an_interrupted_search_says_what_resuming_it_gives(harness: StubbedHarness) -> None:
    def interrupt(directory: Path) -> None:
        raise KeyboardInterrupt

    harness.worker.behaviours["torchbucket-map"] = interrupt
    done = harness.run("dataset", *SEARCH, *TWO)
    assert done.status == 130
    assert "go on with it by: bucketbench resume" in done.err
    assert "that completes the round alone: a search is not resumed" in done.err
