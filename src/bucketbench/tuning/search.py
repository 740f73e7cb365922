"""A search over the swept keys: settings are measured in turns with the configuration as it stands, a few at a time."""

from __future__ import annotations

import copy
import json
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ResultsError
from bucketbench.job.composed import settings_of
from bucketbench.progress import say
from bucketbench.results.files import write_json
from bucketbench.results.job import JobResult
from bucketbench.results.record import RunRecord
from bucketbench.sweep.points import Points
from bucketbench.sweep.preflight import check_sweep
from bucketbench.sweep.sweep import Sweep
from bucketbench.tuning.conclusion import Conclusion
from bucketbench.tuning.measured import Measured, Setting
from bucketbench.tuning.options import SearchOptions
from bucketbench.tuning.space import Space, space_of
from bucketbench.tuning.suggestions import Suggestion, Suggestions

__all__ = ["TUNING_FILE", "Search"]

TUNING_FILE: Final = "tuning.json"

_REFERENCE: Final[Setting] = ()
_DIRECTORY: Final = "hydra.sweep.dir"
_REPEATS_BY_DEFAULT: Final = 6  # Source: the fewest that a statement at 95 % confidence needs
_SUGGESTIONS_PER_TRIAL: Final = 20  # of settings that were measured already, before a round goes without another


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hydra:
    """What a sweep is made of."""

    context: HydraContext
    task_function: TaskFunction
    config: DictConfig
    launching: dict[str, Any]


class _Round(Sweep):
    """A sweep over points that are given, instead of those that overrides combine."""

    def __init__(self, hydra: _Hydra, points: Points) -> None:
        super().__init__(
            hydra.context, hydra.task_function, hydra.config, params={}, order_seed=None, **hydra.launching
        )
        self._given = points

    def _points(self, arguments: Sequence[str]) -> Points:
        del arguments
        return self._given


class Search:
    """Finds the setting with the highest figure within a limit of memory.

    Each round is a run of its own: some settings that are new and the configuration as it stands, the *reference*, in
    turns. What is compared over rounds is each setting's ratio to the reference of its own round, so that a machine
    that becomes slower meanwhile favours none. The last round is of the best settings and decides.

    Args:
        context: Hydra's, which composes points.
        task_function: what runs a job.
        config: the configuration that all settings have in common, Hydra's node included. The last round's directory is
            put into it.
        params: swept values of the configuration's files, as ``hydra.sweeper.params`` has them.
        options: how the search goes.
        launching: the arguments of :class:`bucketbench.sweep.sweep.Sweep` about launching.
    """

    def __init__(
        self,
        context: HydraContext,
        task_function: TaskFunction,
        config: DictConfig,
        *,
        params: dict[str, Any],
        options: SearchOptions,
        launching: dict[str, Any],
    ) -> None:
        self._hydra = _Hydra(context=context, task_function=task_function, config=config, launching=launching)
        self._params = params
        self._options = options
        self._base = str(config.hydra.sweep.dir)
        self._rounds = 0
        self._settings_of: dict[Setting, JobSettings] = {}
        self._measured: dict[str, Measured] = {}
        self._trials: dict[str, float | None] = {}
        """By identity; a ratio to the reference, None where the setting failed."""

    def run(self, arguments: Sequence[str]) -> list[JobReturn]:
        """Search, and tell what was found.

        Args:
            arguments: the overrides of the command.

        Returns:
            What the launcher returned of the jobs of the last round.

        Raises:
            UsageError: the search was refused, before any result was written.
            ResultsError: nothing could be measured, or results not be written.
            SystemExit: with status 130, when it was interrupted.
        """
        space = self._space(arguments)
        self._check(space)
        suggestions = Suggestions(space.values, seed=self._options.seed)
        trials = min(self._options.trials, space.size)
        say(f"{trials} of {space.size} settings to try, then the best {self._options.finalists} against one another")
        while len(self._trials) < trials:
            wanted = min(self._options.trials_at_once, trials - len(self._trials))
            asked = self._new(suggestions, space, wanted)
            if not asked:
                break
            self._try(asked, space, suggestions, arguments)
        return self._decide(space, arguments)

    def _space(self, arguments: Sequence[str]) -> Space:
        parser = OverridesParser.create(config_loader=self._hydra.context.config_loader)
        written = parser.parse_overrides([f"{key}={value}" for key, value in self._params.items()])
        return space_of(written, parser.parse_overrides(list(arguments)))

    def _check(self, space: Space) -> None:
        """Refuse a value that no setting could have, before anything is measured."""
        points = {self._identity(space, setting): setting for setting in (_REFERENCE, *space.each_value())}
        check_sweep([self._settings(space, setting) for setting in points.values()])

    def _settings(self, space: Space, setting: Setting) -> JobSettings:
        if setting not in self._settings_of:
            loader = self._hydra.context.config_loader
            composed = loader.load_sweep_config(self._hydra.config, [*space.fixed, *setting])
            self._settings_of[setting] = settings_of(composed, composed.hydra)
        return self._settings_of[setting]

    def _identity(self, space: Space, setting: Setting) -> str:
        """What two settings have in common that are the same: some overrides say what the reference has."""
        found = self._settings(space, setting)
        return json.dumps([found.client.name, found.client_options, found.parameters], sort_keys=True, default=str)

    def _new(self, suggestions: Suggestions, space: Space, wanted: int) -> dict[str, tuple[Suggestion, Setting]]:
        """Suggestions that were not measured yet, by identity; fewer than wanted where there are no more."""
        found: dict[str, tuple[Suggestion, Setting]] = {}
        reference = self._identity(space, _REFERENCE)
        for _ in range(_SUGGESTIONS_PER_TRIAL * wanted):
            suggestion = suggestions.next()
            setting = space.overrides(suggestion)
            identity = self._identity(space, setting)
            if identity == reference:
                self._trials.setdefault(identity, 1.0)
            if identity in self._trials:
                self._tell(suggestions, suggestion, identity)
            elif identity not in found:
                found[identity] = (suggestion, setting)
                if len(found) == wanted:
                    break
        return found

    def _tell(self, suggestions: Suggestions, suggestion: Suggestion, identity: str) -> None:
        limit, measured = self._options.memory_limit_mib, self._measured.get(identity)
        excess = 0.0
        if limit is not None and measured is not None:
            excess = limit if measured.memory_mib is None else measured.memory_mib - limit
        suggestions.tell(suggestion, self._trials[identity], excess_mib=excess)

    def _try(
        self,
        asked: dict[str, tuple[Suggestion, Setting]],
        space: Space,
        suggestions: Suggestions,
        arguments: Sequence[str],
    ) -> None:
        """Measure settings in turns with the reference, and learn from it."""
        settings = [setting for _, setting in asked.values()]
        repeats = [f"repeat={number}" for number in range(self._options.repeats)]
        _, measured = self._run_round([_REFERENCE, *settings], repeats, space, arguments)
        reference = measured[_REFERENCE]
        if not reference.speeds:
            raise ResultsError(f"the configuration as it stands has no {self._options.figure}: {reference.failure}")
        self._measured.setdefault(self._identity(space, _REFERENCE), reference)
        for identity, (suggestion, setting) in asked.items():
            found = measured[setting]
            self._measured[identity] = found
            worked = found.failure is None and found.pairs(reference)[0]
            self._trials[identity] = found.times(reference) if worked else None
            self._tell(suggestions, suggestion, identity)

    def _decide(self, space: Space, arguments: Sequence[str]) -> list[JobReturn]:
        """Measure the best settings once more, and tell what that says."""
        limit = self._options.memory_limit_mib
        ranked = sorted(
            (identity for identity, value in self._trials.items() if value is not None and self._fits(identity)),
            key=lambda identity: -(self._trials[identity] or 0),
        )
        finalists = [self._measured[identity].setting for identity in ranked[: self._options.finalists]]
        if not finalists:
            raise ResultsError(self._nothing_found())
        repeats = space.repeats or [f"repeat={number}" for number in range(_REPEATS_BY_DEFAULT)]
        settings = list(dict.fromkeys([_REFERENCE, *finalists]))
        returns, measured = self._run_round(settings, repeats, space, arguments)
        complete = [one for one in measured.values() if one.failure is None and one.speeds]
        fitting = sorted((one for one in complete if one.fits(limit)), key=lambda one: -one.median)
        if not fitting or not measured[_REFERENCE].speeds:
            raise ResultsError("no finalist was measured within the limit in the last round; its table says why")
        within = {identity: value for identity, value in self._trials.items() if self._fits(identity)}
        conclusion = Conclusion(
            best=fitting[0],
            runner_up=fitting[1] if len(fitting) > 1 else None,
            reference=measured[_REFERENCE],
            trials={self._measured[identity].setting: value for identity, value in within.items()},
            over_limit=len(self._trials) - len(within),
            unit=_unit(returns, self._options.figure),
        )
        write_json(Path(str(self._hydra.config.hydra.sweep.dir)) / TUNING_FILE, conclusion.to_json())
        for line in conclusion.lines():
            say(line)
        take = " ".join(shlex.quote(override) for override in (*space.fixed, *conclusion.best.setting))
        say(f"to take it: {take}")
        return returns

    def _nothing_found(self) -> str:
        """Why there is no finalist."""
        failed = [identity for identity, value in self._trials.items() if value is None]
        over = len(self._trials) - len(failed)
        told = (
            f"none of {len(self._trials)} settings can be taken: {over} over the limit of memory "
            f"({self._options.memory_limit}), {len(failed)} without a result"
        )
        reasons = [self._measured[identity].failure for identity in failed]
        first = next((reason for reason in reasons if reason), None)
        return told if first is None else f"{told}, such as: {first}"

    def _fits(self, identity: str) -> bool:
        """Whether a setting is within the limit; one that failed is not over it."""
        return self._trials[identity] is None or self._measured[identity].fits(self._options.memory_limit_mib)

    def _run_round(
        self, settings: Sequence[Setting], repeats: Sequence[str], space: Space, arguments: Sequence[str]
    ) -> tuple[list[JobReturn], dict[Setting, Measured]]:
        """Measure settings in turns, as a run of its own."""
        self._rounds += 1
        directory = f"{self._base}-{self._rounds:02d}"
        config = copy.deepcopy(self._hydra.config)
        _place(config, directory)
        order = self._order(settings, len(repeats))
        points = [(*space.fixed, *setting, repeats[place]) for place, setting in order]
        varying = tuple(key.lstrip("+~") for key in space.searched)
        hydra = _Hydra(
            context=self._hydra.context,
            task_function=self._hydra.task_function,
            config=config,
            launching=self._hydra.launching,
        )
        returns = _Round(hydra, Points(points=points, varying=varying)).run(arguments)
        record = RunRecord.read(Path(str(config.hydra.sweep.dir)))
        if record is not None:
            record.write_results(ended=True)
        with open_dict(self._hydra.config):
            # What ends the program reads the last round's directory from it, and prints its table.
            self._hydra.config.hydra.sweep.dir = str(config.hydra.sweep.dir)
        jobs: dict[Setting, dict[int, JobResult | str]] = {setting: {} for setting in settings}
        for number, (repeat, setting) in enumerate(order):
            jobs[setting][repeat] = _result(returns[number]) if number < len(returns) else "the launcher gave no result"
        names = {"figure": self._options.figure, "memory_figure": self._options.memory_figure}
        return returns, {setting: Measured.of(setting, found, **names) for setting, found in jobs.items()}

    def _order(self, settings: Sequence[Setting], repeats: int) -> list[tuple[int, Setting]]:
        """The settings of each repeat, after the first in an order of its own, as a sweep has its clients."""
        found: list[tuple[int, Setting]] = []
        for repeat in range(repeats):
            block = list(settings)
            if repeat:
                draw = random.Random(f"{self._options.seed}/{self._rounds}/{repeat}")  # noqa: S311 - an order, not a secret
                draw.shuffle(block)
            found += [(repeat, setting) for setting in block]
        return found


def _place(config: DictConfig, directory: str) -> None:
    """Have a round's results in a directory of its own."""
    escaped = directory.replace("\\", "\\\\").replace("'", "\\'")
    with open_dict(config):
        config.hydra.sweep.dir = directory
        others = [
            text
            for text in OmegaConf.to_container(config.hydra.overrides.hydra, resolve=False) or []
            if not str(text).lstrip("+").startswith(f"{_DIRECTORY}=")
        ]
        config.hydra.overrides.hydra = [*others, f"{_DIRECTORY}='{escaped}'"]


def _result(job: JobReturn) -> JobResult | str:
    if job.status is not JobStatus.COMPLETED:
        return f"the job could not be run: {type(job._return_value).__name__}: {job._return_value}"
    result: JobResult = job.return_value
    return result


def _unit(returns: Sequence[JobReturn], figure: str) -> str:
    results = [found for found in map(_result, returns) if isinstance(found, JobResult)]
    return next((result.figures[figure].unit for result in results if figure in result.figures), "")
