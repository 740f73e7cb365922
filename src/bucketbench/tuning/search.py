"""A search over the swept keys: settings are measured in turns with the configuration as it stands, a few at a time."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bucketbench.errors import ResultsError, UsageError
from bucketbench.progress import say
from bucketbench.results.files import write_json
from bucketbench.results.job import JobResult
from bucketbench.scenarios import find_scenario
from bucketbench.sweep.finish import INTERRUPTED_STATUS
from bucketbench.tuning.conclusion import Conclusion, setting_text
from bucketbench.tuning.measured import Measured, Setting
from bucketbench.tuning.options import SearchOptions
from bucketbench.tuning.plan import search_plan
from bucketbench.tuning.rounds import REFERENCE, Rounds, result_of
from bucketbench.tuning.space import Space, space_of
from bucketbench.tuning.suggestions import Suggestion, Suggestions

__all__ = ["TUNING_FILE", "Search"]

TUNING_FILE: Final = "tuning.json"

_SUGGESTIONS_PER_TRIAL: Final = 20  # of settings that were measured already, before a round goes without another


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
        options: how the search goes.

    Raises:
        ConfigurationError: the scenario has no such figure.
    """

    def __init__(
        self, context: HydraContext, task_function: TaskFunction, config: DictConfig, *, options: SearchOptions
    ) -> None:
        self._context = context
        self._task_function = task_function
        self._config = config
        self._options = options
        scenario = find_scenario(str(config.scenario))
        self._figure = options.figure_of(scenario.name, scenario.figures)
        self._measured: dict[str, Measured] = {}
        self._trials: dict[str, float | None] = {}
        """By identity; a ratio to the reference, None where the setting failed."""
        self._refused: set[Setting] = set()
        self._searched: list[tuple[str, Measured]] = []
        """All that the rounds but the last have measured, the reference in each of them."""
        self._rounds = 0

    def run(self, arguments: Sequence[str]) -> list[JobReturn]:
        """Search, and tell what was found.

        Args:
            arguments: the overrides of the command.

        Returns:
            What the launcher returned of the jobs of the last round.

        Raises:
            UsageError: the search was refused, before any result was written.
            ResultsError: nothing could be measured, or results not be written.
            SystemExit: with status 130, when it was interrupted; with status 0, where it was only to be told.
        """
        space = self._space(arguments)
        rounds = Rounds(
            self._context, self._task_function, self._config, options=self._options, space=space, figure=self._figure
        )
        if self._options.dry_run:
            self._plan(space, rounds)
        rounds.check()
        suggestions = Suggestions(space.values, seed=self._options.seed)
        trials = self._options.most_trials(space.size)
        say(f"{trials} of {space.size} settings to try, then the best {self._options.finalists} against one another")
        try:
            while len(self._trials) < trials:
                wanted = min(self._options.trials_at_once, trials - len(self._trials))
                asked = self._new(suggestions, space, rounds, wanted)
                if not asked:
                    break
                self._try(asked, rounds, suggestions, arguments)
            return self._decide(space, rounds, arguments)
        except SystemExit as ended:
            if ended.code == INTERRUPTED_STATUS:
                say("that completes the round alone: a search is not resumed")
            raise

    def _space(self, arguments: Sequence[str]) -> Space:
        parser = OverridesParser.create(config_loader=self._context.config_loader)
        return space_of(
            parser.parse_overrides(self._options.written),
            parser.parse_overrides(list(arguments)),
            default_client=str(OmegaConf.select(self._config, "hydra.runtime.choices.client")),
        )

    def _plan(self, space: Space, rounds: Rounds) -> None:
        """Print what would be done, and end."""
        lines = search_plan(space, self._options, figure=self._figure, settings=rounds.each(), runs=rounds.runs)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        rounds.check(makes=False)  # last, so that the space is told in any case
        Suggestions(space.values, seed=self._options.seed)  # for which Optuna must be installed
        raise SystemExit(0)

    def _new(
        self, suggestions: Suggestions, space: Space, rounds: Rounds, wanted: int
    ) -> dict[str, tuple[Suggestion, Setting]]:
        """Suggestions that were not measured yet, by identity; fewer than wanted where there are no more."""
        found: dict[str, tuple[Suggestion, Setting]] = {}
        reference = rounds.identity(REFERENCE)
        for _ in range(_SUGGESTIONS_PER_TRIAL * wanted):
            suggestion = suggestions.next()
            setting = space.overrides(suggestion)
            if not self._can_be_run(setting, rounds):
                suggestions.tell(suggestion, None, excess_mib=0)
                continue
            identity = rounds.identity(setting)
            if identity == reference:
                self._trials.setdefault(identity, 1.0)
            if identity in self._trials:
                self._tell(suggestions, suggestion, identity)
            elif identity not in found:
                found[identity] = (suggestion, setting)
                if len(found) == wanted:
                    break
        refused = rounds.refused([setting for _, setting in found.values()]) if found else {}
        for setting, reason in refused.items():
            self._leave_out(setting, reason)
        for suggestion, setting in found.values():
            if setting in refused:
                suggestions.tell(suggestion, None, excess_mib=0)
        return {identity: one for identity, one in found.items() if one[1] not in refused}

    def _can_be_run(self, setting: Setting, rounds: Rounds) -> bool:
        """Whether values that can be used, each by itself, can be together."""
        if setting not in self._refused:
            try:
                rounds.settings(setting)
            except (UsageError, HydraException, OmegaConfBaseException) as error:
                self._leave_out(setting, " ".join(str(error).split()))
        return setting not in self._refused

    def _leave_out(self, setting: Setting, reason: str) -> None:
        self._refused.add(setting)
        say(f"left out: {' '.join(setting)}: {reason}")

    def _tell(self, suggestions: Suggestions, suggestion: Suggestion, identity: str) -> None:
        limit, measured = self._options.memory_limit_mib, self._measured.get(identity)
        excess = 0.0
        if limit is not None and measured is not None:
            excess = limit if measured.memory_mib is None else measured.memory_mib - limit
        suggestions.tell(suggestion, self._trials[identity], excess_mib=excess)

    def _try(
        self,
        asked: dict[str, tuple[Suggestion, Setting]],
        rounds: Rounds,
        suggestions: Suggestions,
        arguments: Sequence[str],
    ) -> None:
        """Measure settings in turns with the reference, and learn from it."""
        settings = [setting for _, setting in asked.values()]
        repeats = [f"repeat={number}" for number in range(self._options.repeats)]
        _, measured = rounds.run([REFERENCE, *settings], repeats, arguments)
        self._rounds += 1
        self._searched += [
            (f"{setting_text(setting)} in round {self._rounds}", one) for setting, one in measured.items()
        ]
        reference = measured[REFERENCE]
        if not reference.speeds:
            raise ResultsError(f"the configuration as it stands has no {self._figure}: {reference.failure}")
        self._measured.setdefault(rounds.identity(REFERENCE), reference)
        for identity, (suggestion, setting) in asked.items():
            found = measured[setting]
            self._measured[identity] = found
            worked = found.failure is None and found.pairs(reference)[0]
            self._trials[identity] = found.times(reference) if worked else None
            self._tell(suggestions, suggestion, identity)

    def _decide(self, space: Space, rounds: Rounds, arguments: Sequence[str]) -> list[JobReturn]:
        """Measure the best settings once more, and tell what that says."""
        limit = self._options.memory_limit_mib
        ranked = sorted(
            (identity for identity, value in self._trials.items() if value is not None and self._fits(identity)),
            key=lambda identity: -(self._trials[identity] or 0),
        )
        finalists = [self._measured[identity].setting for identity in ranked[: self._options.finalists]]
        if not finalists:
            raise ResultsError(self._nothing_found())
        repeats = self._options.last_repeats(space.repeats)
        settings = list(dict.fromkeys([REFERENCE, *finalists]))
        returns, measured = rounds.run(settings, repeats, arguments)
        complete = [one for one in measured.values() if one.failure is None and one.speeds]
        fitting = sorted((one for one in complete if one.fits(limit)), key=lambda one: -one.median)
        if not fitting or not measured[REFERENCE].speeds:
            raise ResultsError("no finalist was measured within the limit in the last round; its table says why")
        within = {identity: value for identity, value in self._trials.items() if self._fits(identity)}
        conclusion = Conclusion(
            best=fitting[0],
            runner_up=fitting[1] if len(fitting) > 1 else None,
            reference=measured[REFERENCE],
            trials={self._measured[identity].setting: value for identity, value in within.items()},
            over_limit=len(self._trials) - len(within),
            unit=_unit(returns, self._figure),
            searched=self._searched,
        )
        write_json(Path(str(self._config.hydra.sweep.dir)) / TUNING_FILE, conclusion.to_json())
        for line in conclusion.lines():
            say(line)
        take = " ".join(shlex.quote(override) for override in space.command(conclusion.best.setting))
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


def _unit(returns: Sequence[JobReturn], figure: str) -> str:
    results = [found for found in map(result_of, returns) if isinstance(found, JobResult)]
    return next((result.figures[figure].unit for result in results if figure in result.figures), "")
