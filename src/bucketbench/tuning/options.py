"""How a search goes: ``hydra.sweeper`` with ``hydra/sweeper=optuna``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from bucketbench.errors import ConfigurationError
from bucketbench.units import parse_size

__all__ = ["SearchOptions"]

_LEAST: Final = {"trials": 1, "trials_at_once": 1, "repeats": 1, "finalists": 2, "seed": 0}
_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """The options of a search; ``conf/hydra/sweeper/optuna.yaml`` explains them.

    Args:
        trials: how many settings are measured at most, without the reference.
        trials_at_once: how many of them are measured in turns with the reference.
        repeats: how often each of them is measured while the search goes on.
        finalists: how many of the best are measured once more, in turns.
        figure: the figure that is to be as high as it can.
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
    figure: str = "throughput_mibs"
    memory_limit: str | int | None = None
    memory_figure: str = "peak_rss_mib"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
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

    @classmethod
    def names(cls) -> list[str]:
        """The names of the options."""
        return [field.name for field in fields(cls)]
