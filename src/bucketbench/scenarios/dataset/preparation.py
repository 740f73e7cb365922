"""Makes the data sets of a run of the dataset scenario, and describes its jobs to the measured processes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import xxhash

from bucketbench.clients.protocol import Target
from bucketbench.datagen import DatasetSpec, Manifest, ProgressReport, ensure_dataset, progress_on, read_manifest
from bucketbench.errors import PreflightError, UsageError
from bucketbench.scenarios.dataset.job import DatasetJob, LocalCopy
from bucketbench.scenarios.dataset.settings import DatasetSettings
from bucketbench.scenarios.dataset.warming import WARMED_MEMORY_SHARE, warm
from bucketbench.scenarios.scenario import Places, write_options
from bucketbench.streams import redirect_to_devnull

__all__ = ["DatasetPreparation"]

_DESCRIBED: Final = ("num_samples", "sample_size_bytes", "size_distribution", "image_format", "resolution", "seed")
"""What of a data set's description is in the results' parameters."""


class DatasetPreparation:
    """Each data set is made, or found, once a run.

    Args:
        directory: the run's own; the lists of samples go below it.
        places: where the objects lie.
    """

    def __init__(self, directory: Path, places: Places, /) -> None:
        self._directory = directory
        self._places = places

    def prepare(self, settings: DatasetSettings) -> None:
        """Make or find the job's data set, and write the list of its samples."""
        listed = self._listed(settings)
        if listed.is_file():
            self._places.testbed(settings)
            return
        cache = settings.cache_directory
        cache.mkdir(parents=True, exist_ok=True)
        target = self._places.maker_target(settings)
        manifest = _manifest(settings, target, write_options(settings, target))
        total_bytes = sum(entry.size_bytes for entry in manifest.entries)
        if settings.uses_testbed and total_bytes <= WARMED_MEMORY_SHARE * psutil.virtual_memory().total:
            warm(target, (entry.key for entry in manifest.entries))
        mark = settings.completion_marker
        if settings.uses_testbed and not mark.exists():
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        _write_whole(listed.with_suffix(".spec.json"), json.dumps(manifest.spec.to_json()))
        lines = (f"{json.dumps(entry.to_json(), ensure_ascii=False)}\n" for entry in manifest.entries)
        _write_whole(listed, "".join(lines))

    def job(self, settings: DatasetSettings) -> DatasetJob:
        """The job, by the list of its samples."""
        listed = self._listed(settings)
        testbed = self._places.testbed(settings)
        config = settings.config
        return DatasetJob(
            client=settings.client,
            model=settings.model,
            target=self._places.target(settings),
            samples_file=str(listed.absolute()),
            loader=settings.loader,
            epochs=None if config["epochs"] == "auto" else config["epochs"],
            min_measured_s=config["min_measured_s"],
            warmup_samples=config["warmup_samples"],
            seed=config["seed"],
            device=config["device"],
            admin_url=None if testbed is None else testbed.admin,
            local_copy=LocalCopy(
                directory=str(settings.cache_directory / "local" / settings.prefix.strip("/")),
                spec=json.loads(listed.with_suffix(".spec.json").read_text(encoding="utf-8")),
            ),
        )

    def _listed(self, settings: DatasetSettings) -> Path:
        """The file that lists the samples of the job's data set, one for each place where a data set is kept."""
        target = settings.config["target"]
        keys = ("name", "endpoint", "bucket", "tls", "opaque_etags")
        place = (*(target[key] for key in keys), str(settings.cache_directory))
        digest = xxhash.xxh3_64_hexdigest(json.dumps(place).encode())
        return self._directory / "samples" / f"{settings.prefix.strip('/').replace('/', '+')}.{digest}.jsonl"


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _manifest(settings: DatasetSettings, target: Target, options: Mapping[str, Any]) -> Manifest:
    if not settings.config["data"]["generate"]:
        manifest = read_manifest(target.uri, **options)
        _check_described(target.uri, actual=manifest.spec, configured=settings.dataset_spec)
        return manifest
    try:
        with progress_on(title=f"data set {target.uri}") as progress:

            def show(report: ProgressReport) -> None:
                try:
                    progress(report)
                except OSError:  # as in say
                    redirect_to_devnull(sys.stderr)

            return ensure_dataset(
                target.uri, settings.dataset_spec, progress=show, lock_directory=settings.cache_directory, **options
            )
    except OSError as error:
        cache = settings.cache_directory
        free_mib = shutil.disk_usage(cache).free >> 20
        raise UsageError(
            f"the data set {target.uri} could not be made: {error} ({free_mib} MiB are free in {cache})"
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
