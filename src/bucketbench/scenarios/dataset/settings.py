"""One point of a sweep of the dataset scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bucketbench.configuration.settings import JobSettings
from bucketbench.configuration.values import Rule
from bucketbench.datagen import DatagenError, DatasetSpec
from bucketbench.errors import ConfigurationError, PreflightError
from bucketbench.job.description import Component
from bucketbench.scenarios.dataset.job import LoaderSettings
from bucketbench.scenarios.dataset.schema import RULES, DatasetConfig
from bucketbench.units import format_bytes, parse_count, parse_resolution, parse_size

__all__ = ["DatasetSettings"]

_MEMORY_SHARE: Final = 0.8
"""The part of the memory that batches may take. *Source*: ours; the rest is for the interpreters, 0.3 GiB each."""

_DISK_SHARE: Final = 0.95
"""The part of the free disk space that a data set may take. *Source*: ours, so that logs and results still fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSettings(JobSettings):
    """The composed configuration of one job of the dataset scenario, every value checked."""

    schema: ClassVar = DatasetConfig
    rules: ClassVar[Mapping[str, Rule]] = RULES
    no_parameters: ClassVar[frozenset[str]] = frozenset({
        "model.name", "model._target_", "model.path", "model.requires", "data.prefix", "data.generate",
        "data.sample_size",
    })  # fmt: skip

    @property
    def model(self) -> Component:
        """What is done with the samples."""
        return self.component("model")

    @property
    def components(self) -> Mapping[str, Component]:
        """The client and the model."""
        return {"client": self.client, "model": self.model}

    @property
    def loader(self) -> LoaderSettings:
        """The DataLoader's settings."""
        return LoaderSettings(**self.config["dataloader"])

    @property
    def dataset_spec(self) -> DatasetSpec:
        """What the data set consists of; the sizes of its samples are divided by the workload's scale."""
        data = self.config["data"]
        resolution = data["resolution"]
        try:
            return DatasetSpec(
                num_samples=parse_count(data["num_samples"]),
                sample_size_bytes=round(parse_size(data["sample_size"]) / self.config["workload"]["scale"]),
                size_distribution=data["size_distribution"],
                size_sigma=float(data["size_sigma"]),
                size_spread=float(data["size_spread"]),
                image_format=data["image_format"],
                resolution=None if resolution is None else parse_resolution(resolution),
                seed=data["seed"],
            )
        except (DatagenError, ValueError) as error:
            raise ConfigurationError(f"the group data: {error}") from None

    @property
    def prefix(self) -> str:
        """What begins the key of every sample: the configured prefix, or one that names the data set's description."""
        configured = self.config["data"]["prefix"]
        if configured:
            return f"{str(configured).rstrip('/')}/"
        spec = self.dataset_spec
        shape = {
            "constant": "constant",
            "lognormal": f"lognormal-{spec.size_sigma:g}",
            "uniform": f"uniform-{spec.size_spread:g}",
        }[spec.size_distribution]
        side = "" if spec.resolution is None else f"-{spec.resolution[0]}x{spec.resolution[1]}"
        name = f"{spec.image_format}-{spec.num_samples}x{spec.sample_size_bytes}B-{shape}{side}-seed{spec.seed}"
        return f"bucketbench/{name}/"

    @property
    def _is_workload(self) -> bool:
        workload = self.config["workload"]
        return bool(workload["name"] != "none" or workload["scale"] != 1)

    def own_parameters(self) -> dict[str, Any]:
        """What is read, how often, by which loader and for which model."""
        config = self.config
        spec = self.dataset_spec
        found: dict[str, Any] = {
            **({f"workload.{name}": value for name, value in config["workload"].items()} if self._is_workload else {}),
            "model": self.model.name,
            "epochs": config["epochs"],
            "min_measured_s": config["min_measured_s"] if config["epochs"] == "auto" else None,
            "warmup_samples": config["warmup_samples"],
            "data.name": config["data"]["name"],
            "data.num_samples": spec.num_samples,
            "data.sample_size_bytes": spec.sample_size_bytes,
            "data.size_distribution": spec.size_distribution,
            "data.image_format": spec.image_format,
            "data.resolution": config["data"]["resolution"],
            "data.seed": spec.seed,
        }
        return found | {f"dataloader.{name}": value for name, value in config["dataloader"].items()}

    def batch_memory_bytes(self) -> int:
        """How much the batches that are ready or on their way can take, all workers together, as stored."""
        loader = self.loader
        in_flight = max(loader.num_workers, 1) * (loader.prefetch_factor if loader.num_workers else 1) + 1
        spec = self.dataset_spec
        # Never more than the whole data set is under way.
        return min(in_flight * loader.batch_size, spec.num_samples) * spec.sample_size_bytes

    def check_fits(self, *, memory_bytes: int, free_disk_bytes: int) -> None:
        """Raise where batches exceed the memory, or a data set that is kept here exceeds the disk."""
        loader, spec = self.loader, self.dataset_spec
        batches_bytes = self.batch_memory_bytes()
        if batches_bytes > memory_bytes * _MEMORY_SHARE:
            raise PreflightError(
                f"{loader.num_workers} workers x {loader.prefetch_factor} prefetched batches x {loader.batch_size} "
                f"samples of {format_bytes(spec.sample_size_bytes)} can take {format_bytes(batches_bytes)}, more "
                f"than {_MEMORY_SHARE:.0%} of this machine's {format_bytes(memory_bytes)} of memory: lower "
                "dataloader.num_workers, dataloader.prefetch_factor or dataloader.batch_size"
            )
        data_bytes = spec.num_samples * spec.sample_size_bytes
        if self.uses_testbed and not self.completion_marker.is_file() and data_bytes > free_disk_bytes * _DISK_SHARE:
            raise PreflightError(
                f"the data set of {spec.num_samples:,} samples of {format_bytes(spec.sample_size_bytes)} takes "
                f"{format_bytes(data_bytes)}, and {self.cache_directory} has {format_bytes(free_disk_bytes)} left: "
                "lower data.num_samples or data.sample_size, or set cache_dir to a larger disk"
            )
