"""Where Hydra begins: ``bucketbench run SCENARIO`` is an ordinary Hydra program, and this is its main function."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.errors import ConfigurationError
from bucketbench.job.run import run_job
from bucketbench.scenarios import find_scenario
from bucketbench.sweep.messages import explained

__all__ = ["run_scenario"]

_FULL_ERROR: Final = "HYDRA_FULL_ERROR"
_COMPLETED: Final = "COMP_LINE"
_COMMANDS: Final = frozenset({
    "--cfg", "-c", "--info", "-i", "--help", "-h", "--hydra-help", "--version", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc", "--experimental-rerun",
})  # fmt: skip
"""What a Hydra program may be asked for beside a sweep."""


class ScenarioSearchPath(SearchPathPlugin):
    """By it ``client=NAME`` finds a file of the scenario's own, in ``conf/SCENARIO/client/``."""

    directory: ClassVar[Path]

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the scenario's directory."""
        search_path.append(provider="scenario", path=f"file://{self.directory}")


def run_scenario(name: str, arguments: Sequence[str]) -> int:
    """Hand a scenario's command line to Hydra.

    Args:
        name: of the scenario, and of its configuration file.
        arguments: what follows it: overrides, and the options of every Hydra program.

    Returns:
        0; 1 when a job failed or results could not be written; 130 when the sweep was interrupted. The results of its
        jobs are written in each case.

    Raises:
        UsageError: the sweep was refused, before any result was written.
    """
    directories = _config_directories(arguments)
    sys.path.extend(directory for directory in directories if directory not in sys.path)
    scenario = find_scenario(name)
    conf = find_conf_directory(name, others=map(Path, directories))
    ConfigStore.instance().store(name=f"{name}_schema", node=scenario.settings.schema)
    ScenarioSearchPath.directory = conf / name
    if ScenarioSearchPath not in Plugins.instance().discover(SearchPathPlugin):
        Plugins.instance().register(ScenarioSearchPath)
    main = hydra.main(config_path=str(conf), config_name=name, version_base="1.3")(run_job)
    with _arguments(f"bucketbench run {name}", arguments), _errors_raised():
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
        except (HydraException, OmegaConfBaseException) as error:
            text = explained(error, scenario=name, keys=_dotted_keys(scenario.settings.schema))
            raise ConfigurationError(text) from error
    return 0


def _config_directories(arguments: Sequence[str]) -> list[str]:
    """The directory that ``--config-dir`` gives: a scenario of the user's own is a package in it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd")
    known, _ = parser.parse_known_args(list(arguments))
    return [] if known.config_dir is None else [str(Path(known.config_dir).expanduser().absolute())]


@contextmanager
def _arguments(program: str, arguments: Sequence[str]) -> Iterator[None]:
    """Have Hydra see the command line of a program of its own, and a shell's completion a line of it."""
    before = sys.argv
    line = os.environ.get(_COMPLETED)
    # Hydra would tell the mode by composing, and name another error where that fails.
    asks = any(argument.partition("=")[0] in _COMMANDS | {"hydra.mode"} for argument in arguments)
    sys.argv = [program, *arguments, *([] if asks else ["--multirun"])]
    if line is not None:
        os.environ[_COMPLETED] = line.replace(f"{program} ", "bucketbench ", 1)
    try:
        yield
    finally:
        sys.argv = before
        if line is not None:
            os.environ[_COMPLETED] = line


@contextmanager
def _errors_raised() -> Iterator[None]:
    """Have Hydra raise what goes wrong, instead of printing it and ending the process."""
    before = os.environ.get(_FULL_ERROR)
    os.environ[_FULL_ERROR] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FULL_ERROR]
        else:
            os.environ[_FULL_ERROR] = before


def _dotted_keys(schema: type[ScenarioConfig]) -> list[str]:
    def walk(node: Any, path: str) -> Iterator[str]:
        for key in node:
            dotted = f"{path}.{key}" if path else str(key)
            yield dotted
            value = node._get_node(key)
            if isinstance(value, DictConfig) and not value._is_none():
                yield from walk(value, dotted)

    return list(walk(OmegaConf.structured(schema), ""))
