"""Which jobs a sweep consists of, and in which order they run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override

from bucketbench.errors import ConfigurationError

__all__ = ["Points", "points_of"]

_CLIENT = "client"
_REPEAT = "repeat"


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """The jobs of a sweep.

    Args:
        points: the overrides of each job, in the order in which they run.
        varying: the keys that have several values, but the client and the repeat.
    """

    points: Sequence[tuple[str, ...]]
    varying: tuple[str, ...]

    @property
    def distinct(self) -> list[tuple[str, ...]]:
        """One point of all those that differ in their repeat alone."""
        seen: dict[tuple[str, ...], tuple[str, ...]] = {}
        for point in self.points:
            seen.setdefault(tuple(text for text in point if not text.startswith(f"{_REPEAT}=")), point)
        return list(seen.values())


def points_of(overrides: Sequence[Override], *, default_clients: Sequence[str]) -> Points:
    """Every combination of the swept values, with ``repeat`` the slowest of the keys and ``client`` the fastest.

    Repeats are interleaved between clients that way, whatever else is swept: what drifts with time meets all of them
    alike. Of two overrides of one key the last counts, as in Hydra.

    Args:
        overrides: those of ``hydra.sweeper.params`` first, then those of the command.
        default_clients: who is measured where no override says it.

    Raises:
        ConfigurationError: a key is swept in a way that has no list of values.
    """
    values: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [f"{key}={override.get_value_element_as_str()}"] if not override.is_delete() else [key]
        elif override.is_discrete_sweep():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            raise ConfigurationError(
                f"{override.input_line}: a sweep needs a list of values, such as {key}=1,2 or {key}=range(1,5)"
            )
    if _CLIENT not in values and default_clients:
        values[_CLIENT] = [f"{_CLIENT}={name}" for name in default_clients]
    ordered = sorted(values, key=lambda key: (key != _REPEAT, key == _CLIENT))
    return Points(
        points=list(itertools.product(*(values[key] for key in ordered))),
        varying=tuple(key.lstrip("+~") for key in ordered if len(values[key]) > 1 and key not in (_CLIENT, _REPEAT)),
    )
