"""From a configuration that Hydra composed to the settings of a job."""

from __future__ import annotations

import sys
from typing import Any

from omegaconf import DictConfig, OmegaConf

from bucketbench.cluster.variables import multinode
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError
from bucketbench.scenarios import find_scenario

__all__ = ["config_directories", "settings_of"]

# Here, since a launcher composes a job's configuration where it runs it, in a process that has imported little else.
OmegaConf.register_new_resolver("multinode", multinode, replace=True)


def settings_of(config: DictConfig, hydra: Any) -> JobSettings:
    """The settings of one composed point, every value checked.

    Args:
        config: the composed configuration, with or without Hydra's node.
        hydra: Hydra's node, with the choices of groups and where files were looked for.

    Raises:
        ConfigurationError: a value cannot be used.
        OmegaConfBaseException: an interpolation cannot be resolved, or a value has another type than the schema's.
    """
    directories = config_directories(hydra)
    for directory in directories:
        if directory not in sys.path:
            sys.path.append(directory)  # a scenario of the user's own lies there
    task = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values = OmegaConf.to_container(task, resolve=True)
    if not isinstance(values, dict) or "scenario" not in values:
        raise ConfigurationError("the configuration has no key scenario, which names what is measured")
    groups = hydra.runtime.choices
    return find_scenario(str(values["scenario"])).settings(
        config={str(key): value for key, value in values.items()},
        network=str(groups.get("network")),
        faults=str(groups.get("faults")),
        config_directories=directories,
    )


def config_directories(hydra: Any) -> tuple[str, ...]:
    """The directories of the user's own, given by ``--config-dir`` or ``hydra.searchpath``."""
    added = ("command-line", "hydra.searchpath in command-line", "hydra.searchpath in main")
    sources = hydra.runtime.config_sources
    return tuple(str(source.path) for source in sources if source.provider in added and source.schema == "file")
