"""How a search goes: ``hydra.sweeper`` with ``hydra/sweeper=optuna``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bucketbench.errors import ConfigurationError
from bucketbench.statistics import Better, FigureSet
from bucketbench.sweep.options import LaunchOptions, is_whole
from bucketbench.units import parse_size

__all__ = ["SearchOptions"]

_LEAST: Final = {"trials": 1, "trials_at_once": 1, "repeats": 1, "finalists": 2, "seed": 0}
_REPEATS_BY_DEFAULT: Final = 6  # Source: the fewest that a statement at 95 % confidence needs
_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions(LaunchOptions):
    """The options of a search; ``conf/hydra/sweeper/optuna.yaml`` explains them.

    Args:
        trials: how many settings are measured at most, without the reference.
        trials_at_once: how many of them are measured in turns with the reference.
        repeats: how often each of them is measured while the search goes on.
        finalists: how many of the best are measured once more, in turns.
        figure: the figure that is to be as high as it can; None for the first that the scenario compares clients by.
        memory_limit: the most that a setting may use, such as ``2GiB``; None for any amount.
        memory_figure: the figure, in MiB, that is held against it.
        seed: of the suggestions.

    Raises:
        ConfigurationError: a value cannot be used.
    """

    trials: int = 20
    trials_at_once: int = 4
    repeats: int = 2
    finalists: int = 3
    figure: str | None = None
    memory_limit: str | int | None = None
    memory_figure: str = "peak_rss_mib"
    seed: int = 0

    def __post_init__(self) -> None:
        LaunchOptions.__post_init__(self)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not is_whole(value, least=least):
                raise ConfigurationError(f"hydra.sweeper.{name}={value}: expected a whole number from {least}")
        _ = self.memory_limit_mib

    @property
    def memory_limit_mib(self) -> float | None:
        """The limit in MiB."""
        if self.memory_limit is None:
            return None
        try:
            return parse_size(self.memory_limit) / _MIB
        except ValueError as error:
            raise ConfigurationError(f"hydra.sweeper.memory_limit: {error}") from None

    def most_trials(self, settings: int) -> int:
        """How many of so many settings are tried at most."""
        return min(self.trials, settings)

    def most_rounds(self, settings: int) -> int:
        """How many rounds a search among so many settings has at most, the last one included."""
        return math.ceil(self.most_trials(settings) / self.trials_at_once) + 1

    def last_repeats(self, given: Sequence[str]) -> Sequence[str]:
        """The overrides of the repeats of the last round: those of the command, or as many as a statement needs."""
        return given or [f"repeat={number}" for number in range(_REPEATS_BY_DEFAULT)]

    def figure_of(self, scenario: str, figures: FigureSet) -> str:
        """The name of the figure that is to be as high as it can.

        Args:
            scenario: that is searched, for messages.
            figures: which it has.

        Raises:
            ConfigurationError: it has none of that name, or one whose higher values are not the better ones; or none by
                which memory could be limited.
        """
        best = [name for name, kind in figures.kinds.items() if kind.better is Better.HIGHER]
        memory = [name for name, kind in figures.kinds.items() if kind.unit == "MiB"]
        figure = next((name for name in figures.contests if name in best), None) if self.figure is None else self.figure
        for name, value, fitting, what in (
            ("figure", figure, best, "that is the better the higher it is"),
            ("memory_figure", self.memory_figure, memory, "in MiB"),
        ):
            if value not in fitting:
                raise ConfigurationError(
                    f"hydra.sweeper.{name}={value}: expected a figure of the scenario {scenario} {what}: "
                    f"{', '.join(fitting) or 'it has none'}"
                )
        assert figure is not None
        return figure
