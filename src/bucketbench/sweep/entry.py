"""Where Hydra begins: composes and checks every point of a sweep, then lets Hydra run them.

Hydra's own ``@hydra.main`` composes from ``sys.argv``, ends the process on an error and checks nothing beyond types.
This module drives the same class that it does (``hydra._internal.hydra.Hydra``, unchanged in all of 1.3), so that the
points checked here are the points that Hydra's sweeper runs, and a user's mistake is one line.
"""

from __future__ import annotations

import copy
import platform
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError, ResultsError
from bucketbench.provenance.host import describe_host, git_commit
from bucketbench.results.callback import ResultsCallback
from bucketbench.results.run import RunResults, now
from bucketbench.scenarios import swept
from bucketbench.streams import abandon
from bucketbench.sweep.messages import explained
from bucketbench.sweep.preflight import check_sweep
from bucketbench.sweep.run import Sweep
from bucketbench.sweep.speech import say

__all__ = ["Composer", "run_sweep"]

_CLIENT: Final = "client"
_SWEEP_DIRECTORY: Final = "hydra.sweep.dir"

EXIT_OK: Final = 0
EXIT_FAILED_JOB: Final = 1
EXIT_INTERRUPTED: Final = 130  # as shells have it: 128 and the number of SIGINT


class _RememberingLoader(ConfigLoaderImpl):
    """Composes each point of a sweep once.

    A point takes 0.15 s. Composed once for the check and, by Hydra, once before the first job and once for each job,
    the points of the default sweep would take 15 s of the user's time.
    """

    def __init__(self, search_path: Any) -> None:
        super().__init__(config_search_path=search_path)
        self._composed: dict[tuple[str, ...], DictConfig] = {}

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        key = (*master_config.hydra.overrides.hydra, "", *sweep_overrides)
        if key not in self._composed:
            self._composed[key] = super().load_sweep_config(master_config, sweep_overrides)
        return copy.deepcopy(self._composed[key])  # Hydra writes the job's number into it


class Composer:
    """Composes one scenario's configuration and expands its sweep.

    A context manager, since Hydra keeps its state in singletons: they are cleared at the end of the block.
    """

    def __init__(self, scenario: str, *, config_directories: Sequence[Path] = ()) -> None:
        """Compose ``scenario``, looking for options of groups in ``config_directories`` too.

        Raises:
            UsageError: there is no such scenario.
        """
        self.scenario = scenario
        self._directories = tuple(str(directory) for directory in config_directories)
        known = swept(scenario)
        self._settings = known.settings
        # The scenario's clients may have a group of their own, whose option becomes the key ``client``.
        group = known.client_group
        self._client_key = group if group == _CLIENT else f"{group}@{_CLIENT}"
        self._client_group = group
        ConfigStore.instance().store(name=f"{scenario}_schema", node=known.settings.schema)
        search_path = create_config_search_path(str(find_conf_directory(scenario)))
        for directory in reversed(self._directories):
            search_path.prepend(
                provider="command-line", path=f"file://{directory}", anchor=SearchPathQuery(provider="schema")
            )
        GlobalHydra.instance().clear()
        self.hydra = Hydra(task_name=scenario, config_loader=_RememberingLoader(search_path))
        GlobalHydra.instance().initialize(self.hydra)

    def __enter__(self) -> Composer:
        return self

    def __exit__(self, *_: object) -> None:
        GlobalHydra.instance().clear()

    def master(self, overrides: Sequence[str]) -> DictConfig:
        """The configuration that all points have in common, Hydra's own node included.

        Raises:
            ConfigurationError: an override, or a file, is wrong.
        """
        with self._explaining():
            config: DictConfig = self.hydra.compose_config(
                config_name=self.scenario,
                overrides=list(overrides),
                run_mode=RunMode.MULTIRUN,
                with_log_configuration=False,
            )
        return config

    def interleaved(self, overrides: Sequence[str]) -> list[str]:
        """The overrides in an order that makes ``repeat`` the slowest of the swept keys and ``client`` the fastest.

        Hydra's sweeper takes the keys of ``hydra.sweeper.params`` first, in their order, and then those of the command
        line: ``repeat`` is among the former, and the clients are put at the end of the latter. Repeats are interleaved
        between clients that way, whatever else is swept: what drifts with time meets all of them alike. Without a
        ``client=`` the clients are those of ``default_clients`` for the scheme of the target.
        """
        overrides = self._for_the_client_group(overrides)
        with self._explaining():
            keys = [override.key_or_group for override in self._parser().parse_overrides(list(overrides))]
        clients = [text for key, text in zip(keys, overrides, strict=True) if key == self._client_group]
        others = [text for key, text in zip(keys, overrides, strict=True) if key != self._client_group]
        master = self.master(overrides)
        swept_clients = (master.hydra.sweeper.get("params") or {}).get(_CLIENT)
        if swept_clients is not None:  # a file of the user's own may have them there, as Hydra's examples do
            others.append(f"~hydra.sweeper.params.{_CLIENT}")
            clients = clients or [f"{self._client_key}={swept_clients}"]
        return [*others, *(clients or self._default_clients(master))[-1:]]

    def _for_the_client_group(self, overrides: Sequence[str]) -> list[str]:
        """The overrides with ``client=`` taken for the scenario's own group of clients."""
        start = f"{_CLIENT}="
        return [
            f"{self._client_key}={text.removeprefix(start)}" if text.startswith(start) else text for text in overrides
        ]

    def _default_clients(self, master: DictConfig) -> list[str]:
        """The override that sweeps the clients which the scenario's file has for the target's scheme."""
        names = master.default_clients.get(master.target.scheme) or ()
        return [f"{self._client_key}={','.join(names)}"] if names else []

    def points(self, overrides: Sequence[str]) -> list[JobSettings]:
        """Every point of the sweep, composed and checked, in the order in which Hydra will run them.

        Raises:
            ConfigurationError: a point cannot be composed, or a value of it cannot be used.
        """
        master = self.master(overrides)
        parameters = master.hydra.sweeper.get("params") or {}
        arguments = [f"{key}={value}" for key, value in parameters.items()]
        arguments += [str(override) for override in master.hydra.overrides.task]
        found = []
        with self._explaining():
            parsed = self._parser().parse_overrides(arguments)
            for (point,) in BasicSweeper.split_arguments(parsed, max_batch_size=1):
                composed = self.hydra.config_loader.load_sweep_config(master, list(point))
                found.append(self.settings(composed, composed.hydra))
        return found

    def settings(self, config: DictConfig, hydra: Any) -> JobSettings:
        """The settings of one composed point.

        Args:
            config: the composed configuration, with or without Hydra's node.
            hydra: Hydra's node, with the choices of groups and the overrides.
        """
        task_config = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
        with self._explaining():
            values = OmegaConf.to_container(task_config, resolve=True)
        overrides = self._parser().parse_overrides(list(hydra.overrides.task))
        groups = hydra.runtime.choices
        named = [(o, f"{o.key_or_group}@{o.package}" if o.package else o.key_or_group) for o in overrides]
        keys = [key for override, key in named if key not in groups and not override.is_delete()]
        if not isinstance(values, dict):
            raise ConfigurationError(f"the scenario {self.scenario} is no mapping of keys to values")
        return self._settings(
            config={str(key): value for key, value in values.items()},
            network=str(groups.get("network")),
            faults=str(groups.get("faults")),
            overrides=tuple(keys),
            config_directories=self._directories,
        )

    def _parser(self) -> OverridesParser:
        return OverridesParser.create(config_loader=self.hydra.config_loader)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (HydraException, OmegaConfBaseException) as error:
            keys = _dotted_keys(self._settings.schema)
            aliases = {self._client_group: _CLIENT}
            raise ConfigurationError(explained(error, scenario=self.scenario, keys=keys, aliases=aliases)) from error


def run_sweep(scenario: str, overrides: Sequence[str], *, config_directories: Sequence[Path] = ()) -> int:
    """Run one sweep from its check to its table.

    Args:
        scenario: name of the scenario.
        overrides: Hydra's overrides, as the user gave them.
        config_directories: directories with further options of groups, and modules of clients.

    Returns:
        0; 1 when a job failed; 130 when the sweep was interrupted. Its results are written in each case.

    Raises:
        UsageError: the sweep was refused, before any result was written.
        ResultsError: the results could not be written.
    """
    with Composer(scenario, config_directories=config_directories) as composer:
        ordered = composer.interleaved(overrides)
        directory = _own_directory(composer.master(ordered), explicit=_sets_directory(overrides))
        ordered.append(f"{_SWEEP_DIRECTORY}={_quoted(directory)}")
        with _terminable(), _removed_when_refused(directory):
            points = composer.points(ordered)
            check_sweep(points)
            host, commit = describe_host(), git_commit()
            results = RunResults(
                directory=directory,
                scenario=scenario,
                command=tuple(overrides),
                jobs_planned=len(points),
                started_at=now(),
                host=host,
                versions=_versions(),
                commit=commit,
            )
            with Sweep(directory, scenario=scenario, points=points, host=host, commit=commit) as sweep:
                sweep.prepare()
                say(f"{len(points)} jobs; results in {directory}")

                def run_job(config: DictConfig) -> None:
                    hydra = HydraConfig.get()
                    settings = composer.settings(config, hydra)
                    sweep.run_job(settings, Path(hydra.runtime.output_dir), number=int(hydra.job.num))

                complete = _multirun(composer, run_job, ordered, results)
        _print_report(directory)
    if not complete:
        return EXIT_INTERRUPTED
    return EXIT_FAILED_JOB if sweep.failed else EXIT_OK


def _multirun(composer: Composer, run_job: Any, overrides: list[str], results: RunResults) -> bool:
    """Let Hydra run all jobs; whether it came to the end. The results are written either way."""
    ResultsCallback.current = results
    try:
        composer.hydra.multirun(
            config_name=composer.scenario, task_function=run_job, overrides=overrides, with_log_configuration=False
        )
    except KeyboardInterrupt:
        say("interrupted: writing the results of the jobs so far")
        results.write(ended=True, interrupted=True)
        return False
    finally:
        ResultsCallback.current = None
    return True


def _own_directory(master: DictConfig, *, explicit: bool) -> Path:
    """Make the sweep's directory, which did not exist before: two sweeps of the same second get two."""
    wanted = Path(str(OmegaConf.select(master, _SWEEP_DIRECTORY))).absolute()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    directory = wanted
    for number in range(2, 1000):
        try:
            directory.mkdir()
        except FileExistsError:
            if explicit:
                raise ConfigurationError(
                    f"{_SWEEP_DIRECTORY}={wanted} exists already, and results are never overwritten: name another"
                ) from None
            directory = wanted.with_name(f"{wanted.name}-{number}")
            continue
        return directory
    raise ResultsError(f"{wanted} and 998 directories named after it exist already")


@contextmanager
def _removed_when_refused(directory: Path) -> Iterator[None]:
    """Leave no empty run behind that ``bucketbench report`` would take for the newest."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty: something was measured, or is the user's
            directory.rmdir()
            directory.parent.rmdir()
            directory.parent.parent.rmdir()
        raise


def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("torchbucket", "hydra-core")}
    return {"python": platform.python_version(), **packages}


def _sets_directory(overrides: Sequence[str]) -> bool:
    return any(override.lstrip("+").startswith(f"{_SWEEP_DIRECTORY}=") for override in overrides)


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _dotted_keys(schema: type[ScenarioConfig]) -> list[str]:
    def walk(node: Any, path: str) -> Iterator[str]:
        for key in node:
            dotted = f"{path}.{key}" if path else str(key)
            yield dotted
            value = node._get_node(key)
            if isinstance(value, DictConfig) and not value._is_none():
                yield from walk(value, dotted)

    return list(walk(OmegaConf.structured(schema), ""))


def _print_report(directory: Path) -> None:
    from bucketbench.report import load_run
    from bucketbench.report.table import print_report

    try:
        run = load_run(directory)
    except ResultsError as error:
        say(f"no table: {error}")  # interrupted before the first job was over
        return
    try:
        print_report(run)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon(sys.stdout)  # the reader, such as head, has seen enough


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the results are written and nothing is left running."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return

    def interrupt(number: int, frame: Any) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
