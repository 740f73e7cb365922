"""Where Hydra begins: ``bucketbench run SCENARIO`` is an ordinary Hydra program, and this is its main function."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import hydra
import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bucketbench.configuration.directory import PACKAGED, find_conf_directory
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.errors import ConfigurationError
from bucketbench.interruption import ended_by_signals
from bucketbench.job.run import run_job
from bucketbench.scenarios import find_scenario
from bucketbench.scenarios.scenario import Scenario
from bucketbench.sweep.messages import explained

__all__ = ["known_keys", "register_scenario", "run_program", "run_scenario"]

_FULL_ERROR: Final = "HYDRA_FULL_ERROR"
_COMPLETED: Final = "COMP_LINE"
_DRY_RUN: Final = "--dry-run"
_COMMANDS: Final = frozenset({
    "--cfg", "-c", "--info", "-i", "--help", "-h", "--hydra-help", "--version", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc", "--experimental-rerun",
})  # fmt: skip
"""What a Hydra program may be asked for beside a sweep."""


class ScenarioSearchPath(SearchPathPlugin):
    """By it ``client=NAME`` finds a file of the scenario's own, in ``conf/SCENARIO/client/`` or where it says.

    What a folder of the user's lacks, because it was removed or is from another version, is found in the package.
    """

    directories: ClassVar[tuple[Path, ...]]

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the scenario's directory, and the package's behind the user's."""
        for directory in self.directories:
            search_path.append(provider="scenario", path=f"file://{directory}")


def run_scenario(name: str, arguments: Sequence[str]) -> int:
    """Hand a scenario's command line to Hydra.

    Args:
        name: of the scenario, and of its configuration file.
        arguments: what follows it: overrides, the options of every Hydra program, and ``--dry-run``, which tells what
            would be run.

    Returns:
        0; 1 when a job failed or results could not be written; 3 when the sink does not have them; 130 when the sweep
        was interrupted. The results of its jobs are written in each case. Of several nodes, the others return
        what the first one does.

    Raises:
        UsageError: the sweep was refused, before any result was written, or a single job is to be run dry.
        NodeLostError: another node does not answer.
    """
    if _DRY_RUN in arguments:
        if any(map(_is_single_job, arguments)):
            raise ConfigurationError(
                f"{_DRY_RUN} tells the jobs of a sweep, and hydra.mode=RUN asks for a single one: leave one of them out"
            )
        arguments = [*(one for one in arguments if one != _DRY_RUN), "++hydra.sweeper.dry_run=true"]
    directories = _config_directories(arguments)
    sys.path.extend(directory for directory in directories if directory not in sys.path)
    scenario = find_scenario(name)
    conf = register_scenario(scenario, others=map(Path, directories))
    main = hydra.main(config_path=str(conf), config_name=name, version_base="1.3")(run_job)
    return run_program(main, f"bucketbench run {name}", arguments, scenario=scenario)


def run_program(main: Callable[[], Any], program: str, arguments: Sequence[str], *, scenario: Scenario) -> int:
    """Run what ``hydra.main`` has made of a function, and return the exit status of the program.

    Args:
        main: the function.
        program: its name, for messages.
        arguments: its command line.
        scenario: whose jobs it runs.

    Raises:
        ConfigurationError: Hydra or OmegaConf could not make a configuration; in one line that says what to change.
        UsageError: the sweep was refused, before any result was written.
        NodeLostError: another node does not answer.
    """
    with _arguments(program, arguments), _errors_raised(), ended_by_signals():
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
        except (HydraException, OmegaConfBaseException) as error:
            text = explained(error, scenario=scenario.name, keys=known_keys(scenario.settings.schema))
            raise ConfigurationError(text) from error
        except yaml.YAMLError as error:
            raise ConfigurationError(f"a configuration file is no YAML: {' '.join(str(error).split())}") from error
        except UnicodeDecodeError as error:
            conf = find_conf_directory(scenario.name, others=map(Path, _config_directories(arguments)))
            for path in _not_utf8((conf, *map(Path, _config_directories(arguments)))):
                raise ConfigurationError(
                    f"{path} is not UTF-8, which a configuration file has to be: {error}"
                ) from error
            raise
        except (TypeError, ValueError) as error:
            if not _is_of_omegaconf(error):
                raise
            raise ConfigurationError(f"an override names no place of a list: {error}") from error
    return 0


def _is_of_omegaconf(error: BaseException) -> bool:
    """Whether OmegaConf raised it, which has no error of its own for a place of a list that is no number."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("omegaconf.")


def _not_utf8(directories: Iterable[Path]) -> Iterator[Path]:
    """The configuration files that are no text; OmegaConf's error does not tell which one it was."""
    for path in (path for directory in directories for path in sorted(directory.rglob("*.yaml"))):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            yield path


def register_scenario(scenario: Scenario, *, others: Iterable[Path] = ()) -> Path:
    """Tell Hydra the schema and the clients of a scenario; return the directory that its configuration is in.

    Args:
        scenario: what is to be composed.
        others: directories that may have the scenario's file instead.

    Raises:
        ConfigurationError: there is no configuration of that name.
    """
    conf = find_conf_directory(scenario.name, others=others)
    ConfigStore.instance().store(name=f"{scenario.name}_schema", node=scenario.settings.schema)
    clients = scenario.clients or scenario.name
    packaged = () if conf.samefile(PACKAGED) else (PACKAGED, PACKAGED / clients)
    ScenarioSearchPath.directories = (conf / clients, *packaged)
    if ScenarioSearchPath not in Plugins.instance().discover(SearchPathPlugin):
        Plugins.instance().register(ScenarioSearchPath)
    return conf


def _is_single_job(argument: str) -> bool:
    key, _, value = argument.lstrip("+").partition("=")
    return argument in ("--run", "-r") or (key == "hydra.mode" and value.strip("'\"") == "RUN")


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


def known_keys(schema: type[ScenarioConfig]) -> list[str]:
    """The keys of a scenario's configuration by dotted name, for messages."""

    def walk(node: Any, path: str) -> Iterator[str]:
        for key in node:
            dotted = f"{path}.{key}" if path else str(key)
            yield dotted
            value = node._get_node(key)
            if isinstance(value, DictConfig) and not value._is_none():
                yield from walk(value, dotted)

    return list(walk(OmegaConf.structured(schema), ""))
