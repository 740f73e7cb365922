"""One point of a sweep of the dataset scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bucketbench.configuration.settings import JobSettings
from bucketbench.configuration.values import Rule
from bucketbench.datagen import DatagenError, DatasetSpec
from bucketbench.errors import ConfigurationError, PreflightError
from bucketbench.job.description import Component
from bucketbench.scenarios.dataset.job import LoaderSettings
from bucketbench.scenarios.dataset.schema import RULES, DatasetConfig
from bucketbench.scenarios.kernel_cache import require_clearing
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
        "model.name", "model._target_", "model.path", "model.requires", "model.decodes", "data.prefix", "data.generate",
        "data.sample_size", "data.existing", "data.max_samples", "data.shard_size", "data.samples_per_shard",
        "data.extensions", "data.num_classes", "clear_kernel_cache", "verify_share",
    })  # fmt: skip

    @classmethod
    def clients_by_default(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Those of the target's scheme; over what was there before, those that write nothing; over shards, theirs."""
        data = config["data"]
        sharded = data["shard_size"] is not None or data["samples_per_shard"] is not None
        kind = "tar" if sharded else "existing" if data["existing"] else None
        names: Sequence[str] | None = config["default_clients"].get(f"{config['target']['scheme']}_{kind}")
        if names is not None:
            return names
        return JobSettings.clients_by_default(config)

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
    def reads_existing(self) -> bool:
        """Whether what is read was there before, written by whoever; its numbers and sizes are found by listing it."""
        return bool(self.config["data"]["existing"])

    @property
    def reads_members(self) -> bool:
        """Whether the client's samples are those of tar shards, and not whole objects."""
        return bool(self.config["client"]["samples"] == "members")

    @property
    def decoded(self) -> bool:
        """Whether the client delivers samples that it decoded itself."""
        return bool(self.config["client"]["decoded"])

    @property
    def max_samples(self) -> int | None:
        """How many objects an epoch reads, None for all."""
        most = self.config["data"]["max_samples"]
        return None if most is None else parse_count(most)

    @property
    def dataset_spec(self) -> DatasetSpec:
        """What a data set of ours consists of; the sizes of its samples are divided by the workload's scale."""
        data = self.config["data"]
        if data["num_samples"] is None or data["sample_size"] is None:
            raise ConfigurationError(
                "data.num_samples and data.sample_size must be set for a data set that is made here; data=existing "
                "reads what is there"
            )
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
                shard_size_bytes=None if data["shard_size"] is None else parse_size(data["shard_size"]),
                samples_per_shard=None if data["samples_per_shard"] is None else parse_count(data["samples_per_shard"]),
                extensions=tuple(data["extensions"]),
                num_classes=parse_count(data["num_classes"]),
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
        if self.reads_existing:
            raise ConfigurationError(
                "data.prefix must be set and is not: add data.prefix=VALUE, the beginning of the keys to be read"
            )
        spec = self.dataset_spec
        shape = {
            "constant": "constant",
            "lognormal": f"lognormal-{spec.size_sigma:g}",
            "uniform": f"uniform-{spec.size_spread:g}",
        }[spec.size_distribution]
        side = "" if spec.resolution is None else f"-{spec.resolution[0]}x{spec.resolution[1]}"
        name = f"{spec.image_format}-{spec.num_samples}x{spec.sample_size_bytes}B-{shape}{side}-seed{spec.seed}"
        if spec.is_sharded:
            limits = {"B": spec.shard_size_bytes, "": spec.samples_per_shard}
            words = [f"{limit}{unit}" for unit, limit in limits.items() if limit is not None]
            name += f"-tar-{'-'.join([*words, *spec.extensions])}-classes{spec.num_classes}"
        return f"bucketbench/{name}/"

    @property
    def _is_workload(self) -> bool:
        workload = self.config["workload"]
        return bool(workload["name"] != "none" or workload["scale"] != 1)

    def own_parameters(self) -> dict[str, Any]:
        """What is read, how often, by which loader and for which model."""
        config = self.config
        self._check_samples()
        if self.reads_existing and config["client"]["options"].get("compose"):
            raise ConfigurationError(
                f"client={config['client']['name']} joins small objects to temporary ones, which it writes into the "
                "bucket, and data=existing writes nothing: choose one without that, such as dataflux-map-nocompose, "
                "or set client.options.compose=false"
            )
        if config["data"]["max_samples"] is not None and not self.reads_existing:
            raise ConfigurationError(
                f"data.max_samples={config['data']['max_samples']} is for data=existing; of a data set that is made "
                "here data.num_samples says how many there are"
            )
        found: dict[str, Any] = {
            **({f"workload.{name}": value for name, value in config["workload"].items()} if self._is_workload else {}),
            "model": self.model.name,
            "epochs": config["epochs"],
            "min_measured_s": config["min_measured_s"] if config["epochs"] == "auto" else None,
            "warmup_samples": config["warmup_samples"],
            **({"clear_kernel_cache": True} if config["clear_kernel_cache"] else {}),
            # Left out at 1, as in results from before there was a choice, which are those of 1.
            **({"verify_share": config["verify_share"]} if config["verify_share"] != 1 else {}),
            "data.name": config["data"]["name"],
            **self._data_parameters(),
            **({"samples": "members"} if self.reads_members else {}),
            **({"decoded": True} if self.decoded else {}),
        }
        return found | {f"dataloader.{name}": value for name, value in config["dataloader"].items()}

    def _check_samples(self) -> None:
        """Raise where the client's samples are not in the data, or are nothing that the model takes."""
        config = self.config
        client, model, data = config["client"]["name"], config["model"]["name"], config["data"]["name"]
        sharded = not self.reads_existing and self.dataset_spec.is_sharded
        if self.reads_members and not sharded and not self.reads_existing:
            raise ConfigurationError(
                f"client={client} reads the samples in tar shards, and data={data} has none: take workload=tar_shards, "
                "or set data.samples_per_shard or data.shard_size"
            )
        if not config["model"]["decodes"]:
            return
        if self.decoded:
            raise ConfigurationError(
                f"client={client} delivers samples that it has decoded, and model={model} decodes image files: take "
                "model=none or model=simulated"
            )
        if sharded and not self.reads_members:
            raise ConfigurationError(
                f"client={client} delivers whole tar shards, and model={model} decodes image files: take a client of "
                "the samples in shards, such as torchbucket-tar, or model=none"
            )

    def _data_parameters(self) -> dict[str, Any]:
        if self.reads_existing:
            return {"data.prefix": self.prefix, "data.max_samples": self.max_samples}
        spec = self.dataset_spec
        shards: dict[str, Any] = {}
        if spec.is_sharded:
            shards = {
                "data.shard_size_bytes": spec.shard_size_bytes,
                "data.samples_per_shard": spec.samples_per_shard,
                "data.extensions": list(spec.extensions),
                "data.num_classes": spec.num_classes,
            }
        return {
            **shards,
            "data.num_samples": spec.num_samples,
            "data.sample_size_bytes": spec.sample_size_bytes,
            "data.size_distribution": spec.size_distribution,
            "data.image_format": spec.image_format,
            "data.resolution": self.config["data"]["resolution"],
            "data.seed": spec.seed,
        }

    def batch_memory_bytes(self) -> int:
        """How much the batches that are ready or on their way can take, all workers together, as stored."""
        loader = self.loader
        in_flight = max(loader.num_workers, 1) * (loader.prefetch_factor if loader.num_workers else 1) + 1
        spec = self.dataset_spec
        # Never more than the whole data set is under way.
        samples = in_flight * loader.batch_size
        if spec.is_sharded and not self.reads_members:
            by_number = (spec.samples_per_shard or spec.num_samples) * spec.sample_size_bytes
            shard_bytes = max(min(spec.shard_size_bytes or by_number, by_number), spec.sample_size_bytes)
            return min(samples * shard_bytes, spec.num_samples * spec.sample_size_bytes)
        return min(samples, spec.num_samples) * spec.sample_size_bytes

    def check_fits(self, *, memory_bytes: int, free_disk_bytes: int) -> None:
        """Raise where batches exceed the memory, a data set that is kept here exceeds the disk, or the kernel's cache
        cannot be dropped.

        Of what was there before nothing is known yet.
        """
        if self.config["clear_kernel_cache"]:
            require_clearing()
        if self.reads_existing:
            return
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
