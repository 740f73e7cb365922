"""One point of a sweep: its checked configuration, and what of it distinguishes its results from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bucketbench.configuration.schema import check
from bucketbench.datagen import DatagenError, DatasetSpec
from bucketbench.errors import ConfigurationError
from bucketbench.job import Component, LoaderSettings
from bucketbench.testbed.faults.plan import FaultSet
from bucketbench.testbed.faults.rules import FaultError
from bucketbench.testbed.network.model import NetworkModel, NetworkModelError
from bucketbench.units import parse_count, parse_resolution, parse_size

__all__ = ["JobSettings"]

# Keys that say who is measured, how often, or where files lie, but not what is measured.
_NO_PARAMETERS: Final = (
    "scenario", "repeat", "disambiguator", "cache_dir", "time_limit_s", "network", "faults",
    "client.name", "client._target_", "client.path", "client.requires", "client.role",
    "model.name", "model._target_", "model.path", "model.requires",
    "target.name", "target.ca_bundle", "data.prefix", "data.generate",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSettings:
    """The composed configuration of one job, every value checked.

    Args:
        config: the configuration as plain nested values.
        network: name of the chosen network preset.
        faults: name of the chosen set of faults.
        overrides: dotted keys that the command set, without those that choose a group's option.
        config_directories: directories given by ``--config-dir``; a user's modules are found there too.

    Raises:
        ConfigurationError: a value is unset or cannot be used.
    """

    config: Mapping[str, Any]
    network: str
    faults: str
    overrides: tuple[str, ...] = ()
    config_directories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self.config)
        _ = self.dataset_spec, self.network_model, self.fault_set  # their own checks

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return str(self.config["scenario"])

    @property
    def repeat(self) -> int:
        """Which repeat this is, from 0."""
        return int(self.config["repeat"])

    @property
    def client(self) -> Component:
        """The client under comparison."""
        return self._component("client")

    @property
    def model(self) -> Component:
        """What is done with the samples."""
        return self._component("model")

    @property
    def loader(self) -> LoaderSettings:
        """The DataLoader's settings."""
        return LoaderSettings(**self.config["dataloader"])

    @property
    def uses_testbed(self) -> bool:
        """Whether the target is the testbed that the sweep starts."""
        return bool(self.config["target"]["testbed"])

    @property
    def dataset_spec(self) -> DatasetSpec:
        """What the data set consists of."""
        data = self.config["data"]
        resolution = data["resolution"]
        try:
            return DatasetSpec(
                num_samples=parse_count(data["num_samples"]),
                sample_size_bytes=parse_size(data["sample_size"]),
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
    def network_model(self) -> NetworkModel:
        """The testbed's network model."""
        try:
            return NetworkModel.from_mapping(self.config["network"])
        except NetworkModelError as error:
            raise ConfigurationError(f"the group network: {error}") from None

    @property
    def fault_set(self) -> FaultSet:
        """What the testbed does to some of the requests."""
        try:
            return FaultSet.from_value(self.config["faults"])
        except FaultError as error:
            raise ConfigurationError(f"the group faults: {error}") from None

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
    def cache_directory(self) -> Path:
        """Where the testbed's objects and local copies are kept."""
        return Path(str(self.config["cache_dir"])).expanduser().absolute()

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that distinguishes this job's results but its client and its repeat, by dotted name."""
        config = self.config
        spec = self.dataset_spec
        found: dict[str, Any] = {
            "target": config["target"]["name"],
            "network": self.network if self.uses_testbed else None,
            "faults": self.faults if self.uses_testbed else None,
            "tls": config["target"]["tls"],
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
        found |= {f"dataloader.{name}": value for name, value in config["dataloader"].items()}
        for key in self.overrides:
            hidden = key in _NO_PARAMETERS or key in found or key in ("data.sample_size", "target.tls")
            if not hidden and key.partition(".")[0] != "hydra":
                found[key] = _select(config, key)
        return found

    def batch_memory_bytes(self) -> int:
        """How much the batches that are ready or on their way can take, all workers together, as stored."""
        loader = self.loader
        in_flight = max(loader.num_workers, 1) * (loader.prefetch_factor if loader.num_workers else 1) + 1
        spec = self.dataset_spec
        # Never more than the whole data set is under way.
        return min(in_flight * loader.batch_size, spec.num_samples) * spec.sample_size_bytes

    def _component(self, group: str) -> Component:
        fields = self.config[group]
        path = fields["path"]
        search: Sequence[str] = [str(Path(path).expanduser().absolute())] if path else self.config_directories
        return Component(
            name=fields["name"],
            target=fields["_target_"],
            requires=tuple(fields["requires"]),
            search_path=tuple(search),
            options=dict(fields["options"]),
        )


def _select(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value
