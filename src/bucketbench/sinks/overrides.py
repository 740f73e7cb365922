"""Which sink ``bucketbench push`` sends a run to: the one of the run's configuration, changed as the command says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bucketbench.errors import ConfigurationError
from bucketbench.job.description import Component
from bucketbench.sinks.chosen import chosen_sink

__all__ = ["sink_of_run"]

_CONFIGURATION: Final = "multirun.yaml"


def sink_of_run(run: Path, overrides: Sequence[str], *, config_directory: Path | None = None) -> Component:
    """The sink of a run.

    Args:
        run: its directory or its ``run_results.json``.
        overrides: ``sink=NAME``, which takes the place of the run's sink, and ``sink.KEY=VALUE``.
        config_directory: where a sink of the user's own may be configured.

    Raises:
        ConfigurationError: no sink is chosen, a key is unknown or unset, or a file cannot be read.
    """
    names = [word.partition("=")[2] for word in overrides if word.startswith("sink=")]
    directory = run if run.is_dir() else run.parent
    keys = [word for word in overrides if not word.startswith("sink=")]
    try:
        fields = _option(names[-1], config_directory) if names else _configured(directory)
        resolved: Any = OmegaConf.to_container(_overridden(fields, keys), resolve=True)
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigurationError(f"the sink's configuration cannot be used: {' '.join(str(error).split())}") from error
    directories = () if config_directory is None else (str(config_directory.absolute()),)
    sink = chosen_sink(resolved, config_directories=directories)
    if sink is None:
        raise ConfigurationError(
            "the run has no sink in its configuration: say where to push it, for example sink=dynamodb "
            "sink.table=TABLE or sink=bigquery sink.dataset=DATASET"
        )
    return sink


def _configured(directory: Path) -> DictConfig:
    """The group ``sink`` of the run's configuration, empty where that is not there."""
    try:
        whole = OmegaConf.load(directory / _CONFIGURATION)
    except FileNotFoundError:
        return OmegaConf.create({})
    except OSError as error:
        raise ConfigurationError(f"{directory / _CONFIGURATION} cannot be read: {error.strerror or error}") from error
    sink = whole.get("sink") if isinstance(whole, DictConfig) else None
    return sink if isinstance(sink, DictConfig) else OmegaConf.create({})


def _option(name: str, config_directory: Path | None) -> DictConfig:
    """The file of an option: the user's own, in ``./conf`` or ``--config-dir``, or the package's."""
    given = [] if config_directory is None else [config_directory]
    places = [*given, Path("conf"), Path(__file__).parents[1] / "conf"]
    for place in places:
        file = place / "sink" / f"{name}.yaml"
        if file.is_file():
            loaded = OmegaConf.load(file)
            if isinstance(loaded, DictConfig):
                return loaded
            raise ConfigurationError(f"{file} is no sink: expected keys and values")
    known = sorted({file.stem for place in places for file in (place / "sink").glob("*.yaml")})
    raise ConfigurationError(f"sink={name}: there is no sink of that name; the options are: {', '.join(known)}")


def _overridden(fields: DictConfig, overrides: Sequence[str]) -> DictConfig:
    keys = [str(key) for key in fields]  # `in` would leave out those that are to be set
    for word in overrides:
        key, equals, value = word.lstrip("+").removeprefix("sink.").partition("=")
        if not equals:
            raise ConfigurationError(f"{word} is no override: expected sink.KEY=VALUE")
        if not word.startswith("+") and key.split(".")[0] not in keys:
            raise ConfigurationError(
                f"sink.{key} is no key of the sink {fields.get('name')} (its keys are {', '.join(keys)})"
            )
        OmegaConf.update(fields, key, yaml.safe_load(value))
    return fields
