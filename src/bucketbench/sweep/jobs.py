"""The jobs of a sweep with their composed configurations, and the file by which another process has the same.

A sweep's points are composed once, before its first job. What the files in ``conf/`` say later reaches no job of it,
neither while it runs nor when it is resumed.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from hydra.conf import HydraConf
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigSource
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError, ResultsError
from bucketbench.job.composed import settings_of
from bucketbench.results.files import write_json
from bucketbench.results.job import digest
from bucketbench.sweep.points import Points

__all__ = ["JOBS_FILE", "ComposedLoader", "Jobs", "check_repeats", "with_hydra"]

JOBS_FILE: Final = "jobs.json"
_VERSION: Final = 1
_REPEAT: Final = "repeat"
_BY_NUMBER: Final = "${hydra.job.num}"


class Jobs:
    """The jobs of a sweep, in the order in which they run.

    Args:
        points: the overrides of each job.
        kinds: for each job the place of its configuration in ``configs``. Jobs that differ in their repeat alone are of
            one kind.
        configs: the composed configuration of each kind, Hydra's node included.
    """

    def __init__(
        self, points: Sequence[tuple[str, ...]], *, kinds: Sequence[int], configs: Sequence[DictConfig]
    ) -> None:
        self.points = points
        self.kinds = kinds
        self._configs = configs

    @classmethod
    def composed(cls, points: Points, compose: Callable[[Sequence[str]], DictConfig]) -> Self:
        """Compose a configuration for each kind of job.

        Args:
            points: of the sweep.
            compose: makes the configuration of one point.

        Raises:
            ConfigurationError: a repeat is no number from 0.
            HydraException: a point cannot be composed.
        """
        distinct, kinds = points.distinct, points.kinds
        check_repeats(points.points)
        return cls(points.points, kinds=kinds, configs=[compose(point) for point in distinct])

    def __len__(self) -> int:
        return len(self.points)

    def config(self, number: int) -> DictConfig:
        """The composed configuration of a job, for the caller to change."""
        config, point = copy.deepcopy(self._configs[self.kinds[number]]), self.points[number]
        repeat = _repeat_of(point)
        with open_dict(config):
            if repeat is not None:
                config[_REPEAT] = int(repeat)
            config.hydra.overrides.task = list(point)
            config.hydra.job.override_dirname = _directory_name(point, config.hydra.job.config.override_dirname)
        return config

    def directory(self, number: int) -> Path:
        """Where a job's results lie."""
        run, own = self._run_and_own(number)
        return run / own

    def check_directories(self) -> None:
        """Raise where a job's results would not lie below the run's directory, or in the place of another job's.

        Raises:
            ConfigurationError: says what ``hydra.sweep.subdir`` must be like.
        """
        numbers: dict[str, int] = {}
        for number in range(len(self)) if any(_written(one) != _BY_NUMBER for one in self._configs) else ():
            run, own = self._run_and_own(number)  # the run's may be named by the time, which goes on meanwhile
            within = os.path.normpath(run / own)
            if not Path(within).is_relative_to(os.path.normpath(run)):
                raise ConfigurationError(
                    f"hydra.sweep.subdir={own} has the results of job {number} beside the run's, where nothing finds "
                    f"them: name a directory below it, such as {_BY_NUMBER}"
                )
            place = os.path.relpath(within, run)
            if numbers.setdefault(place, number) != number:
                raise ConfigurationError(
                    f"hydra.sweep.subdir={own} has the results of job {number} in the place of those of job "
                    f"{numbers[place]}: have {_BY_NUMBER} in it"
                )

    def _run_and_own(self, number: int) -> tuple[Path, str]:
        """The directory of the run, and that of a job below it."""
        config = self.config(number)
        with open_dict(config):
            config.hydra.job.num = config.hydra.job.id = number
        return Path(str(config.hydra.sweep.dir)), str(OmegaConf.select(config, "hydra.sweep.subdir"))

    def settings(self) -> list[JobSettings]:
        """What each kind of job is configured for, every value checked.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        return [settings_of(config, config.hydra) for config in self._configs]

    def place_in(self, directory: Path, override: str) -> None:
        """Have the results of all jobs in a directory.

        Args:
            directory: the run's.
            override: that says so, which is added to Hydra's.
        """
        for config in self._configs:
            with open_dict(config):
                config.hydra.sweep.dir = str(directory)
                config.hydra.overrides.hydra.append(override)

    def to_json(self) -> dict[str, Any]:
        """The jobs as plain JSON values. Interpolations stay what they are."""
        configs = [OmegaConf.to_container(config, resolve=False, enum_to_str=True) for config in self._configs]
        jobs = [{"config": kind, "overrides": point} for kind, point in zip(self.kinds, self.points, strict=True)]
        return {"version": _VERSION, "configs": configs, "digests": self._digests(), "jobs": jobs}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The jobs of which ``to_json`` gave the fields.

        Raises:
            ConfigurationError: what they say has another meaning by now, since the code is another or the environment
                has other values.
        """
        jobs = cls(
            [tuple(job["overrides"]) for job in fields["jobs"]],
            kinds=[int(job["config"]) for job in fields["jobs"]],
            configs=[with_hydra(config) for config in fields["configs"]],
        )
        for config, then, now in zip(jobs._configs, fields["digests"], jobs._digests(), strict=True):
            if then != now:
                raise ConfigurationError(
                    f"the jobs of client={config.client.name} would be other ones by now (configuration {now} and not "
                    f"{then}): an environment variable that their configuration refers to, or what the code makes of "
                    "it, has changed; start a new run"
                )
        return jobs

    def write(self, directory: Path) -> None:
        """Write ``jobs.json`` into the run's directory.

        Raises:
            ResultsError: it could not be written.
        """
        write_json(directory / JOBS_FILE, self.to_json())

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The jobs that ``write`` has left in a run's directory, which may have been moved since.

        Raises:
            ResultsError: there is no such file, or it is damaged.
            ConfigurationError: see ``from_json``.
        """
        path = directory / JOBS_FILE
        try:
            fields = json.loads(path.read_bytes())
            if fields["version"] != _VERSION:
                raise ResultsError(f"{path} has version {fields['version']}, and this bucketbench reads {_VERSION}")
            jobs = cls.from_json(fields)
        except FileNotFoundError as error:
            raise ResultsError(
                f"{directory} has no {JOBS_FILE}, which says what its jobs are: it is the directory of no run, or of "
                "one of an earlier version, or it was ended before its first job"
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResultsError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
        for config in jobs._configs:
            config.hydra.sweep.dir = str(directory)
        return jobs

    def _digests(self) -> list[dict[str, str]]:
        return [
            {"experiment": digest(settings.parameters), "client": digest(settings.client_options)}
            for settings in self.settings()
        ]


class ComposedLoader(ConfigLoader):
    """Gives launchers the configurations that were composed before the first job, instead of composing them anew.

    Args:
        jobs: of the sweep.
        loader: Hydra's, for all that a launcher may ask beside.
    """

    def __init__(self, jobs: Jobs, loader: ConfigLoader) -> None:
        self._jobs = jobs
        self._numbers = {tuple(point): number for number, point in enumerate(jobs.points)}
        self._loader = loader

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of the job with these overrides."""
        del master_config
        return self._jobs.config(self._numbers[tuple(sweep_overrides)])

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """As Hydra's."""
        return self._loader.load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)

    def get_search_path(self) -> ConfigSearchPath:
        """As Hydra's."""
        return self._loader.get_search_path()

    def get_sources(self) -> list[ConfigSource]:
        """As Hydra's."""
        return self._loader.get_sources()

    def list_groups(self, parent_name: str) -> list[str]:
        """As Hydra's."""
        return self._loader.list_groups(parent_name)

    def get_group_options(
        self,
        group_name: str,
        results_filter: ObjectType | None = ObjectType.CONFIG,
        config_name: str | None = None,
        overrides: list[str] | None = None,
    ) -> list[str]:
        """As Hydra's."""
        return self._loader.get_group_options(group_name, results_filter, config_name, overrides)

    def compute_defaults_list(self, config_name: str | None, overrides: list[str], run_mode: RunMode) -> Any:
        """As Hydra's."""
        return self._loader.compute_defaults_list(config_name, overrides, run_mode)


def check_repeats(points: Iterable[Sequence[str]]) -> None:
    """Raise where the repeat of a point is no number.

    Raises:
        ConfigurationError: names it.
    """
    for point in points:
        repeat = _repeat_of(point)
        if repeat is not None and not repeat.isdecimal():
            raise ConfigurationError(f"{_REPEAT}={repeat} cannot be used: expected a whole number from 0")


def with_hydra(fields: dict[str, Any]) -> DictConfig:
    """A configuration read from a file, its node ``hydra`` of the type that Hydra wants."""
    config = OmegaConf.create({name: value for name, value in fields.items() if name != "hydra"})
    hydra = OmegaConf.structured(HydraConf)
    OmegaConf.set_struct(hydra, False)  # files of Hydra's own add keys
    config.hydra = OmegaConf.merge(hydra, fields["hydra"])
    OmegaConf.set_struct(config, True)
    return config


def _written(config: DictConfig) -> str:
    """The name of a job's directory as the configuration has it."""
    sweep: Any = OmegaConf.to_container(config.hydra.sweep, resolve=False)
    return str(sweep["subdir"])


def _repeat_of(point: Sequence[str]) -> str | None:
    return next((text.partition("=")[2] for text in point if text.startswith(f"{_REPEAT}=")), None)


def _directory_name(point: Sequence[str], form: Any) -> str:
    """``hydra.job.override_dirname``. *Source*: Hydra, "Customizing the application's working directory"."""
    lines = sorted(text for text in point if text.partition("=")[0].lstrip("+~") not in form.exclude_keys)
    return str(form.item_sep).join(lines).replace("=", str(form.kv_sep))
