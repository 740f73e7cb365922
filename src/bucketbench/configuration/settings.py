"""One point of a sweep: its checked configuration, and what of it distinguishes its results from others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from bucketbench.configuration.schema import ScenarioConfig, check
from bucketbench.configuration.values import Rule
from bucketbench.errors import ConfigurationError
from bucketbench.job.description import Component
from buckettestbed.faults.plan import FaultSet
from buckettestbed.faults.rules import FaultError
from buckettestbed.network.model import NetworkModel, NetworkModelError

__all__ = ["JobSettings", "flattened"]

# Keys, or groups of them, that say who is measured, how often, or where files lie, but not what is measured, and those
# whose parameter has another name.
_NO_PARAMETERS: Final = frozenset({
    "scenario", "repeat", "disambiguator", "label", "cache_dir", "time_limit_s", "default_clients", "client", "sink",
    "target.name", "target.ca_bundle", "target.tls", "target.testbed", "target.listen",
})  # fmt: skip
_TESTBEDS_OWN: Final = frozenset({"network", "faults", "target.opaque_etags"})
# Of a client: what it is called, where it is found, and what it delivers, which is a parameter; but not how it reads.
_NO_CLIENT_OPTIONS: Final = frozenset({"name", "role", "requires", "path", "schemes", "samples", "decoded"})


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSettings(ABC):
    """The composed configuration of one job, every value checked. Each scenario has a class of its own.

    Args:
        config: the configuration as plain nested values.
        network: name of the chosen network preset.
        faults: name of the chosen set of faults.
        config_directories: directories given by ``--config-dir``; a user's modules are found there too.

    Raises:
        ConfigurationError: a value is unset or cannot be used.
    """

    schema: ClassVar[type[ScenarioConfig]]
    """Names and types of the scenario's keys."""

    rules: ClassVar[Mapping[str, Rule]]
    """The values that the scenario's own keys take."""

    no_parameters: ClassVar[frozenset[str]] = frozenset()
    """The scenario's own keys that do not say what is measured, or whose parameter has another name."""

    several_nodes: ClassVar[bool] = False
    """Whether the ranks of a job may be on several machines, which share nothing but what they save to."""

    config: Mapping[str, Any]
    network: str
    faults: str
    config_directories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self.config, schema=self.schema, rules=self.rules)
        self._check_nodes()
        _ = self.network_model, self.fault_set, self.prefix, self.own_parameters()  # their own checks
        if self.config["target"]["opaque_etags"] and not self.uses_testbed:
            raise ConfigurationError(
                f"target.opaque_etags=true cannot be used: target={self.config['target']['name']} is a real service, "
                "which chooses its ETags itself; leave it out, or take target=local"
            )

    @classmethod
    def clients_by_default(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Who is measured where the command does not say it.

        Args:
            config: what all points of a sweep have in common.
        """
        return config["default_clients"].get(config["target"]["scheme"]) or ()

    def _check_nodes(self) -> None:
        nodes, ranks = self.config["nodes"], self.processes
        if nodes > 1 and not self.several_nodes:
            raise ConfigurationError(
                f"nodes={nodes} cannot be used: the jobs of {self.scenario} run on one machine; leave it at 1"
            )
        if ranks % nodes:
            raise ConfigurationError(
                f"{ranks} ranks cannot be shared out evenly over nodes={nodes}: take a multiple, such as "
                f"ranks={nodes * max(1, ranks // nodes)}"
            )

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return str(self.config["scenario"])

    @property
    def repeat(self) -> int:
        """Which repeat this is, from 0."""
        return int(self.config["repeat"])

    @property
    def processes(self) -> int:
        """How many measured processes there are, each of them a rank."""
        return int(self.config["ranks"])

    @property
    def scheme(self) -> str:
        """What kind of address the client is to serve: ``s3``, ``gs``, or ``file``."""
        return str(self.config["target"]["scheme"])

    @property
    def client(self) -> Component:
        """The client under comparison."""
        return self.component("client")

    @property
    def components(self) -> Mapping[str, Component]:
        """The classes that the job builds, by the group that chooses them."""
        return {"client": self.client}

    @property
    def uses_testbed(self) -> bool:
        """Whether the target is the testbed that the sweep starts."""
        return bool(self.config["target"]["testbed"])

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
    def cache_directory(self) -> Path:
        """Where the testbed's objects and local copies are kept."""
        return Path(str(self.config["cache_dir"])).expanduser().absolute()

    @property
    def completion_marker(self) -> Path:
        """The file that tells that the testbed's directory has the job's objects.

        A mark of our own, left when they were whole: how the testbed keeps its objects is the testbed's business.
        """
        return self.cache_directory / "made" / self.prefix.strip("/").replace("/", "+")

    @property
    @abstractmethod
    def prefix(self) -> str:
        """What begins the key of every object that the job is about."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that distinguishes this job's results but its client and its repeat, by dotted name.

        That is the whole configuration, value by value, so that an edited file is another experiment though its name is
        the same; names of presets are among the values, for readers.
        """
        hidden = _NO_PARAMETERS | self.no_parameters | (frozenset() if self.uses_testbed else _TESTBEDS_OWN)
        if self.config["nodes"] == 1:
            hidden |= {"nodes"}  # so that a job is comparable with those from before there were several
        named = {
            "target": self.config["target"]["name"],
            "network": self.network if self.uses_testbed else None,
            "faults": self.faults if self.uses_testbed else None,
            "tls": self.config["target"]["tls"],
            **self.own_parameters(),
        }
        others = {
            name: value
            for name, value in flattened(self.config).items()
            if name not in named and not any(name == key or name.startswith(f"{key}.") for key in hidden)
        }
        return named | others

    @property
    def client_options(self) -> dict[str, Any]:
        """How the client was set up, by dotted name: two jobs of one client that differ here are two contestants."""
        fields = {name: value for name, value in self.config["client"].items() if name not in _NO_CLIENT_OPTIONS}
        return flattened(fields)

    @abstractmethod
    def own_parameters(self) -> dict[str, Any]:
        """The scenario's own parameters, whatever the command set."""

    @abstractmethod
    def check_fits(self, *, memory_bytes: int, free_disk_bytes: int) -> None:
        """Raise where the job is larger than the machine.

        Args:
            memory_bytes: the machine's memory.
            free_disk_bytes: free space where ``cache_dir`` lies.

        Raises:
            PreflightError: with the figures on both sides.
        """

    def component(self, group: str) -> Component:
        """The class that a group's option names."""
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


def flattened(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted name, as an override names them; an empty mapping has none.

    A list is one value, but for one of mappings, whose places are names: ``faults.rules.0.probability``.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        dotted = f"{path}.{name}" if path else str(name)
        if isinstance(value, list) and value and all(isinstance(inner, Mapping) for inner in value):
            value = {str(place): inner for place, inner in enumerate(value)}
        found |= flattened(value, dotted) if isinstance(value, Mapping) else {dotted: value}
    return found
