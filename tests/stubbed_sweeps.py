"""Sweeps in this process, with stubs for what they start; Hydra, the sweeper, results, callbacks and tables are real.

A stub worker stands for the measured process. It writes the records that a test wants, or measures the job here, where
torch and the clients are imported already. Testbeds and data sets can be noted only.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from finished_sweeps import NO_PAGE, Finished

from bucketbench.cli import main
from bucketbench.datagen import Manifest
from bucketbench.datagen.manifest import ManifestEntry
from bucketbench.job import run as run_module
from bucketbench.job import testbeds as testbeds_module
from bucketbench.job.description import LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, USAGE_FILE, Description
from bucketbench.job.process import ProcessEnd
from bucketbench.ranks import Ranks
from bucketbench.records import Operation, OperationKind, Phase, UsageSample
from bucketbench.scenarios.dataset import preparation as dataset_preparation
from bucketbench.scenarios.verification import VerificationCounts
from bucketbench.sweep import preflight
from bucketbench.worker import outcome_of
from buckettestbed.launch import RunningTestbed

__all__ = ["SAMPLES", "Finished", "StubbedHarness", "ended", "leave_outcome", "leave_records", "logging_restored"]

SAMPLES = 24
_MIB = 1 << 20
_DONE = ProcessEnd(returncode=0, timed_out=False, wall_s=1.0)

Behaviour = Callable[[Path], ProcessEnd | None]
"""What happens in a job's directory instead of a measurement; None for a process that ended by itself."""


def leave_records(directory: Path, *, wall_s: float = 1.0, errors: int = 0, error: str | None = None) -> None:
    """Write the raw records of one measured pass over `SAMPLES` samples of 1 MiB."""
    measured = {"phase": Phase.MEASURE, "epoch": 0, "worker": -1, "started_s": 1.0, "ended_s": 1.0 + wall_s}
    arrived = SAMPLES - errors
    operations = [
        Operation(kind=OperationKind.WAIT, **measured),
        Operation(
            kind=OperationKind.FETCH,
            samples=arrived,
            content_bytes=arrived * _MIB,
            errors=errors,
            error=error,
            **measured,
        ),
        Operation(kind=OperationKind.EPOCH, **measured),
    ]
    edges = [(0.9, 1.0), (1.1 + wall_s, 2.0)]
    usage = [UsageSample(at_s=at_s, cpu_s=cpu_s, rss_bytes=64 * _MIB, processes=1) for at_s, cpu_s in edges]
    for name, records in ((OPERATIONS_FILE, operations), (USAGE_FILE, usage)):
        (directory / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in records))


def leave_outcome(directory: Path, *, reason: str | None = None, **verification: int) -> None:
    """Write what a measured process concludes: success, or failure for `reason` or for what did not arrive."""
    counted = {"checked": SAMPLES, "mismatched": 0, "missing": 0, "duplicated": 0, "errors": 0} | verification
    counts = VerificationCounts(**counted)
    failure = reason or counts.failure
    outcome = {
        "status": "ok" if failure is None else "failed",
        "reason": failure,
        "verification": asdict(counts),
        "server": None,
        "details": {"start_method": "fork"},
        "versions": {"python": "3"},
    }
    (directory / OUTCOME_FILE).write_text(json.dumps(outcome))


def ended(returncode: int = -9, *, timed_out: bool = False) -> Behaviour:
    """A measured process that ends without an outcome."""
    return lambda directory: ProcessEnd(returncode=returncode, timed_out=timed_out, wall_s=1.0)


def _succeed(directory: Path) -> None:
    leave_records(directory)
    leave_outcome(directory)


def _measure(job: Started, directory: Path) -> None:
    """Measure a job of one rank in this process, in the environment that it would have in its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - job.environment.keys():
            patch.delenv(name)
        for name, value in job.environment.items():
            patch.setenv(name, value)
        outcome = outcome_of(job.description, directory, Ranks())
    (directory / OUTCOME_FILE).write_text(json.dumps(outcome))


@dataclass(frozen=True, kw_only=True)
class Started:
    """A measured process as the harness would have started it."""

    directory: Path
    description: Description
    ranks: int
    environment: Mapping[str, str]

    @property
    def client(self) -> str:
        return str(self.description.job["client"]["name"])


@dataclass
class StubWorker:
    """Takes the place of `run_measured_process`: each client's job goes as `behaviours` says, or well.

    Args:
        measures: whether each other job is measured, in this process, instead of going well.
    """

    measures: bool = False
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)

    def __call__(
        self,
        directory: Path,
        *,
        ranks: int,
        python: Path,
        environment: Mapping[str, str],
        time_limit_s: float,
        on_progress: Callable[[dict[str, Any]], None],
        helpers: Sequence[int],
    ) -> ProcessEnd:
        del python, time_limit_s, helpers
        job = Started(
            directory=directory, description=Description.read(directory), ranks=ranks, environment=dict(environment)
        )
        self.started.append(job)
        (directory / LOG_FILE).touch()
        on_progress({"stage": "epoch 1", "done": 0, "total": SAMPLES})
        otherwise = partial(_measure, job) if self.measures else _succeed
        return self.behaviours.get(job.client, otherwise)(directory) or _DONE


class _NotedTestbed(RunningTestbed):
    """A testbed that nobody serves: it answers what the harness asks of the admin route."""

    def _ask(self, method: str, name: str, body: bytes | None = None) -> object:
        answers: dict[str, object] = {"GET objects": {"bucketbench": 0}}
        if f"{method} {name}" == "POST objects":
            return len(json.loads(body or b"")["objects"])
        return answers.get(f"{method} {name}")


@contextmanager
def logging_restored() -> Iterator[None]:
    """Hydra gives the root logger its own handlers and level, for as long as a process lasts."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in root.handlers:
            if handler not in handlers:
                handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)


class StubbedHarness:
    """Runs the program's commands in this process and in a directory of the test's own.

    Args:
        serves: whether testbeds are started and data sets made as ever; else they are noted in `testbeds` and `made`.
        measured: a job by a stub, in this process ("here"), or in a process of its own as ever ("apart").
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, serves: bool, measured: Literal["stub", "here", "apart"] = "stub"
    ) -> None:
        self.worker = StubWorker(measures=measured == "here")
        self.testbeds: list[dict[str, Any]] = []
        self.made: list[tuple[str, str]] = []
        """Endpoint and address of each data set."""
        if measured != "apart":
            monkeypatch.setattr(run_module, "run_measured_process", self.worker)
        monkeypatch.setattr(preflight, "wrong_options", lambda clients, **where: None)  # imports all of them
        monkeypatch.setattr(sys, "path", list(sys.path))  # directories of the user's are added to it
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(name, os.environ.get(name, ""))
        if not serves:
            monkeypatch.setattr(testbeds_module, "launch_testbed", self._launch)
            monkeypatch.setattr(testbeds_module, "RunningTestbed", _NotedTestbed)
            monkeypatch.setattr(dataset_preparation, "ensure_dataset", self._make)
            monkeypatch.setattr(dataset_preparation, "warm", lambda target, keys: None)

    def bucketbench(self, *arguments: str) -> tuple[int, str, str]:
        """The status of a command, and what it wrote to standard output and to standard error."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), logging_restored():
            status = main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def run(self, scenario: str, *arguments: str, page: bool = False) -> Finished:
        """Run a sweep."""
        own = () if page else (NO_PAGE,)
        status, out, err = self.bucketbench("run", scenario, *own, *arguments)
        runs = self.runs(scenario)
        return Finished(status=status, out=out, err=err, directory=runs[-1] if runs else None)

    def runs(self, scenario: str) -> list[Path]:
        """The directories of the scenario's sweeps, the oldest first."""
        found = Path("multirun", scenario).absolute().glob("*")
        return sorted((path for path in found if path.is_dir()), key=lambda path: path.stat().st_ctime_ns)

    @contextmanager
    def _launch(self, **options: Any) -> Iterator[RunningTestbed]:
        self.testbeds.append(options)
        origin = f"{'https' if options['tls'] else 'http'}://127.0.0.1:{len(self.testbeds)}"
        yield _NotedTestbed(
            s3_endpoint=origin, gcs_endpoint=f"{origin}0", admin="", ca_certificate=None, pid=os.getpid()
        )

    def _make(self, uri: str, spec: Any, *, endpoint: str, **options: Any) -> Manifest:
        self.made.append((endpoint, uri))
        entries = tuple(
            ManifestEntry(key=f"{number:02d}", size_bytes=_MIB, xxh3_128="0" * 32) for number in range(SAMPLES)
        )
        return Manifest(spec=spec, entries=entries)
