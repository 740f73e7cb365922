"""Makes the data sets of a run of the dataset scenario, and describes its jobs to the measured processes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import xxhash

from bucketbench.clients.protocol import Target
from bucketbench.datagen import (
    DatagenError,
    DatasetSpec,
    Manifest,
    ProgressReport,
    ensure_dataset,
    progress_on,
    read_manifest,
)
from bucketbench.datagen.existing import existing_samples
from bucketbench.datagen.existing_shards import existing_shards
from bucketbench.errors import PreflightError
from bucketbench.progress import say
from bucketbench.results.files import write_whole
from bucketbench.scenarios.dataset.expected_samples import expected_samples, samples_in_shards
from bucketbench.scenarios.dataset.job import DatasetJob, LocalCopy
from bucketbench.scenarios.dataset.settings import DatasetSettings
from bucketbench.scenarios.dataset.warming import WARMED_MEMORY_SHARE, warm
from bucketbench.scenarios.scenario import Places, write_options
from bucketbench.streams import redirect_to_devnull

__all__ = ["DatasetPreparation"]

_DESCRIBED: Final = (
    "num_samples", "sample_size_bytes", "size_distribution", "image_format", "resolution", "shard_size_bytes",
    "samples_per_shard", "extensions", "seed",
)  # fmt: skip
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
        listed, made = self._listed(settings), self._made(settings)
        if made.is_file():
            return
        cache = settings.cache_directory
        cache.mkdir(parents=True, exist_ok=True)
        target = self._places.maker_target(settings)
        if settings.reads_existing:
            if listed.is_file():  # of a run that is resumed: its jobs read the same
                return
            options = write_options(settings, target)
            if settings.reads_members:
                found = list(samples_in_shards(existing_shards(target.uri, say=say, **options)))
            else:
                samples = existing_samples(target.uri, most=settings.max_samples, say=say, **options)
                found = [sample.to_json() for sample in samples]
            _write(listed, "".join(f"{json.dumps(sample, ensure_ascii=False)}\n" for sample in found))
            return
        manifest = _manifest(settings, target, write_options(settings, target))
        total_bytes = sum(entry.size_bytes for entry in manifest.entries)
        if settings.uses_testbed and total_bytes <= WARMED_MEMORY_SHARE * psutil.virtual_memory().total:
            warm(target, (entry.key for entry in manifest.entries))
        mark = settings.completion_marker
        if settings.uses_testbed and not mark.exists():
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        _write(listed.with_suffix(".spec.json"), json.dumps(manifest.spec.to_json()))
        expected = expected_samples(manifest, members=settings.reads_members, pictures=settings.decoded)
        _write(listed, "".join(f"{json.dumps(sample, ensure_ascii=False)}\n" for sample in expected))
        made.touch()

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
            local_copy=None
            if settings.reads_existing
            else LocalCopy(
                directory=str(settings.cache_directory / "local" / settings.prefix.strip("/")),
                spec=json.loads(listed.with_suffix(".spec.json").read_text(encoding="utf-8")),
            ),
            max_samples=settings.max_samples,
            samples=settings.config["client"]["samples"],
            decoded=settings.decoded,
            clear_kernel_cache=config["clear_kernel_cache"],
            verify_share=config["verify_share"],
        )

    def _made(self, settings: DatasetSettings) -> Path:
        """The file that tells that the data set is where the job reads it.

        In a service that is the list. A testbed has what it was given, and a run that is resumed has another one.
        """
        listed, testbed = self._listed(settings), self._places.testbed(settings)
        if testbed is None:
            return listed
        digest = xxhash.xxh3_64_hexdigest(json.dumps((testbed.s3_endpoint, testbed.pid)).encode())
        return listed.with_name(f"{listed.stem}.in-{digest}")

    def _listed(self, settings: DatasetSettings) -> Path:
        """The file that lists the samples of the job's data set, as the client delivers them.

        There is one for each place where a data set is kept.
        """
        target = settings.config["target"]
        keys = ("name", "endpoint", "bucket", "tls", "opaque_etags")
        place = (
            *(target[key] for key in keys),
            *(str(settings.cache_directory), settings.max_samples, settings.reads_members, settings.decoded),
        )
        digest = xxhash.xxh3_64_hexdigest(json.dumps(place).encode())
        return self._directory / "samples" / f"{settings.prefix.strip('/').replace('/', '+')}.{digest}.jsonl"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with write_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


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
    except (OSError, DatagenError) as error:
        cache, spec = settings.cache_directory, settings.dataset_spec
        free_bytes = shutil.disk_usage(cache).free
        is_full = settings.uses_testbed and free_bytes < spec.num_samples * spec.sample_size_bytes
        if isinstance(error, DatagenError) and not is_full:
            raise
        told = (
            str(error) if isinstance(error, DatagenError) else f"the data set {target.uri} could not be made: {error}"
        )
        raise DatagenError(
            f"{told} ({free_bytes >> 20} MiB are free in {cache}: cache_dir=DIRECTORY keeps it elsewhere)"
        ) from error


def _check_described(uri: str, *, actual: DatasetSpec, configured: DatasetSpec) -> None:
    """Raise where results would say of a data set that was found what is not true of it."""
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
    if isinstance(value, list):  # a resolution, or extensions
        return f"[{','.join(value)}]" if all(isinstance(item, str) for item in value) else "x".join(map(str, value))
    return str(value)
