"""What the jobs of one sweep share, and how one of them is run: the testbed, the data sets, and the lines of progress.

Nothing here imports torch or a client: a sweep's process stays small beside what it measures.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from filelock import FileLock

from bucketbench.clients.protocol import Target
from bucketbench.configuration.settings import JobSettings
from bucketbench.datagen import (
    DatagenError,
    DatasetSpec,
    Manifest,
    ProgressReport,
    ensure_dataset,
    progress_on,
    read_manifest,
)
from bucketbench.errors import PreflightError, UsageError
from bucketbench.job import JOB_FILE, LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, Job, LocalCopy
from bucketbench.results.files import JOB_RESULTS_FILE, write_json
from bucketbench.results.job import job_results, read_outcome
from bucketbench.results.run import now
from bucketbench.secrecy import scrub_files, secret_values
from bucketbench.streams import abandon
from bucketbench.sweep.environment import TESTBED_REGION, measured_environment
from bucketbench.sweep.preflight import made_mark
from bucketbench.sweep.process import run_measured_process
from bucketbench.testbed.launch import RunningTestbed, TestbedError, launch_testbed

__all__ = ["Sweep", "say"]

_PROGRESS_INTERVAL_S: Final = 10.0  # a job that takes longer says now and then how far it is

_DESCRIBED: Final = ("num_samples", "sample_size_bytes", "size_distribution", "image_format", "resolution", "seed")
"""What of a data set's description is in the results' parameters."""


class Sweep:
    """Runs the jobs of one sweep, one after another, on what they share.

    A context manager: its testbeds, one for HTTP and one for TLS as jobs need them, end with the block. The testbeds
    keep their objects in ``cache_dir``, so that the next sweep finds the data set made.
    """

    def __init__(
        self, directory: Path, *, points: list[JobSettings], host: Mapping[str, Any], commit: str | None
    ) -> None:
        """Prepare for the given points, in the order in which they will run.

        Args:
            directory: the sweep's own directory.
            points: every job's settings.
            host: the machine, for the results.
            commit: of this program's source, for the results.
        """
        self.directory = directory
        self.failed = 0
        self._points = points
        self._host = host
        self._commit = commit
        self._stack = ExitStack()
        self._testbeds: dict[tuple[bool, Path, str], RunningTestbed] = {}
        self._manifests: dict[tuple[Any, ...], Manifest] = {}
        self._secrets = secret_values()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def prepare(self) -> None:
        """Start the testbeds and make the data sets that the points need, before the first job.

        Raises:
            PreflightError: a bucket is not there, a data set cannot be made or read, a testbed does not start.
        """
        for point in self._points:
            try:
                self._prepare(point)
            except (DatagenError, TestbedError) as error:
                raise PreflightError(f"target={point.config['target']['name']}: {error}") from error

    def run_job(self, settings: JobSettings, directory: Path, *, number: int) -> None:
        """Run one job in a fresh process and leave its results in ``directory``. A failure is a result, not an error.

        Args:
            settings: the job.
            directory: its own, which exists.
            number: its place in the sweep, from 0.

        Raises:
            KeyboardInterrupt: after the process was ended and the job's results, failed, were written.
        """
        title = f"[{number + 1}/{len(self._points)}] {settings.client.name}"
        say(f"{title}: repeat {settings.repeat}{self._varying(settings)}")
        started_at = now()
        interrupted: KeyboardInterrupt | None = None
        try:
            reason = self._measure(settings, directory, title=title)
        except KeyboardInterrupt as error:
            reason, interrupted = "interrupted", error
        except Exception as error:  # noqa: BLE001 - one job's failure, whatever it is, must not end the sweep
            reason = f"the job could not be run: {type(error).__name__}: {error}"
        written = [directory / name for name in (LOG_FILE, OPERATIONS_FILE, OUTCOME_FILE, JOB_FILE)]
        scrub_files(written, self._secrets)
        results = job_results(
            directory,
            settings=settings,
            outcome=read_outcome(directory, otherwise=reason),
            started_at=started_at,
            host=self._host,
            commit=self._commit,
            secrets=self._secrets,
        )
        write_json(directory / JOB_RESULTS_FILE, results)
        self.failed += results["status"] != "ok"
        say(f"{title}: {_summary(results)}")
        if interrupted is not None:
            raise interrupted

    def _measure(self, settings: JobSettings, directory: Path, *, title: str) -> str:
        target = self._target(settings)
        manifest = self._manifests[self._dataset_key(settings)]
        samples_file = self.directory / "samples" / f"{settings.prefix.strip('/').replace('/', '+')}.jsonl"
        if not samples_file.exists():
            samples_file.parent.mkdir(exist_ok=True)
            lines = (f"{json.dumps(entry.to_json(), ensure_ascii=False)}\n" for entry in manifest.entries)
            samples_file.write_text("".join(lines), encoding="utf-8")
        testbed = self._testbed(settings)
        if testbed is not None:
            testbed.set_network(settings.config["network"])
            testbed.set_faults(settings.config["faults"])
        cache = settings.cache_directory
        job = Job(
            scenario=settings.scenario,
            client=settings.client,
            model=settings.model,
            target=target,
            samples_file=str(samples_file.absolute()),
            loader=settings.loader,
            epochs=None if settings.config["epochs"] == "auto" else settings.config["epochs"],
            min_measured_s=settings.config["min_measured_s"],
            warmup_samples=settings.config["warmup_samples"],
            seed=settings.config["seed"],
            device=settings.config["device"],
            admin_url=None if testbed is None else testbed.admin,
            local_copy=LocalCopy(
                directory=str(cache / "local" / settings.prefix.strip("/")),
                spec=manifest.spec.to_json(),
            ),
        )
        job.write(directory)
        last_s = time.monotonic()

        def show(word: Mapping[str, Any]) -> None:
            nonlocal last_s
            if time.monotonic() - last_s >= _PROGRESS_INTERVAL_S:
                last_s = time.monotonic()
                say(f"{title}: {word['stage']}, {word['done']:,} of {word['total']:,} samples")

        end = run_measured_process(
            directory,
            environment=measured_environment(os.environ, testbed=settings.uses_testbed),
            time_limit_s=settings.config["time_limit_s"],
            on_progress=show,
        )
        return end.reason

    def _prepare(self, point: JobSettings) -> None:
        key = self._dataset_key(point)
        if key in self._manifests:
            self._testbed(point)
            return
        cache = point.cache_directory
        cache.mkdir(parents=True, exist_ok=True)
        # Two sweeps that begin at once take turns: a testbed reads its directory when it starts, so that the second one
        # must not start before the first has made the data set.
        lock = FileLock(cache / "prepare.lock")
        with lock:
            target = self._target(point)
            options: dict[str, Any] = {
                "region": target.region,
                "endpoint": target.endpoint,
                "path_style": target.path_style,
                "anonymous": target.anonymous or point.uses_testbed,
                "ca_bundle": target.ca_bundle,
            }
            self._manifests[key] = _dataset(point, target, options)
        mark = made_mark(point)
        if point.uses_testbed and not mark.exists():
            mark.parent.mkdir(exist_ok=True)
            mark.touch()

    def _dataset_key(self, settings: JobSettings) -> tuple[Any, ...]:
        target = settings.config["target"]
        return (target["name"], target["endpoint"], target["bucket"], settings.prefix, settings.cache_directory)

    def _target(self, settings: JobSettings) -> Target:
        fields = settings.config["target"]
        testbed = self._testbed(settings)
        certificate = None if testbed is None or testbed.ca_certificate is None else str(testbed.ca_certificate)
        return Target(
            scheme=fields["scheme"],
            bucket=fields["bucket"],
            prefix=settings.prefix,
            endpoint=fields["endpoint"] if testbed is None else testbed.s3_endpoint,
            region=fields["region"] if testbed is None else TESTBED_REGION,
            path_style=fields["path_style"],
            anonymous=fields["anonymous"],
            ca_bundle=fields["ca_bundle"] if testbed is None else certificate,
        )

    def _testbed(self, settings: JobSettings) -> RunningTestbed | None:
        if not settings.uses_testbed:
            return None
        fields = settings.config["target"]
        key = (bool(fields["tls"]), settings.cache_directory, str(fields["bucket"]))
        if key not in self._testbeds:
            directory = settings.cache_directory / "testbed"
            directory.mkdir(parents=True, exist_ok=True)
            testbed = launch_testbed(buckets=[fields["bucket"]], tls=fields["tls"], directory=directory)
            self._testbeds[key] = self._stack.enter_context(testbed)
        return self._testbeds[key]

    def _varying(self, settings: JobSettings) -> str:
        parameters = settings.parameters
        varying = [
            f"{name}={value}"
            for name, value in parameters.items()
            if any(point.parameters.get(name) != value for point in self._points)
        ]
        return f", {', '.join(varying)}" if varying else ""


def say(line: str) -> None:
    """Write one line of progress to stderr at once; stdout is for results."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)  # nobody reads it any more, or its disk is full: that must cost no job its result


def _dataset(point: JobSettings, target: Target, options: Mapping[str, Any]) -> Manifest:
    if not point.config["data"]["generate"]:
        manifest = read_manifest(target.uri, **options)
        _check_described(target.uri, actual=manifest.spec, configured=point.dataset_spec)
        return manifest
    try:
        with progress_on(title=f"data set {target.uri}") as progress:

            def show(report: ProgressReport) -> None:
                try:
                    progress(report)
                except OSError:  # as in say
                    abandon(sys.stderr)

            return ensure_dataset(
                target.uri, point.dataset_spec, progress=show, lock_directory=point.cache_directory, **options
            )
    except OSError as error:
        free_mib = shutil.disk_usage(point.cache_directory).free >> 20
        raise UsageError(
            f"the data set {target.uri} could not be made: {error} ({free_mib} MiB are free in {point.cache_directory})"
        ) from error


def _check_described(uri: str, *, actual: DatasetSpec, configured: DatasetSpec) -> None:
    """Raise where results would say of a data set that was found what is not true of it."""
    if actual.shard_size_bytes is not None:
        raise PreflightError(f"{uri} consists of tar shards; the dataset scenario reads one sample an object")
    different = [
        f"data.{name.removesuffix('_bytes')}={_override_value(value)}"
        for name, value in actual.to_json().items()
        if name in _DESCRIBED and value != configured.to_json()[name]
    ]
    if different:
        raise PreflightError(
            f"{uri} was generated with other values than the configuration has, and the results would be mislabelled: "
            f"add {' '.join(different)}"
        )


def _override_value(value: Any) -> str:
    if value is None:
        return "null"
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def _summary(results: Mapping[str, Any]) -> str:
    if results["status"] != "ok":
        return f"FAILED: {results['reason']}"
    figures = results["figures"]
    speed = [
        f"{figures[name]['value']:,.1f} {figures[name]['unit']}"
        for name in ("throughput_mibs", "samples_per_s")
        if figures[name]["value"] is not None
    ]
    wall = figures["wall_s"]["value"]
    return f"{', '.join(speed) or 'no speed could be measured'}" + ("" if wall is None else f" in {wall:.1f} s")
