"""Which jobs a sweep consists of, and in which order they run."""

from __future__ import annotations

import difflib
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override

from bucketbench.errors import ConfigurationError

__all__ = ["Points", "client_option", "option_override", "options_by_client", "points_of", "values_of"]

_CLIENT = "client"
_REPEAT = "repeat"
_OPTIONS_FOR = "options_for"
"""``+options_for.CLIENT.OPTION=VALUE`` sets an option of one of the clients that a sweep measures."""


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
            seen.setdefault(_without_repeat(point), point)
        return list(seen.values())

    @property
    def kinds(self) -> list[int]:
        """For each point the place in ``distinct`` of the one that it differs from in its repeat alone."""
        places = {_without_repeat(point): place for place, point in enumerate(self.distinct)}
        return [places[_without_repeat(point)] for point in self.points]


def points_of(overrides: Sequence[Override], *, default_clients: Sequence[str], order_seed: int | None) -> Points:
    """Every combination of the swept values, with ``repeat`` the slowest of the keys and ``client`` the fastest.

    Repeats are interleaved between clients that way, whatever else is swept: what drifts with time meets all of them
    alike. The first repeat has its clients in the order in which they are named, each later one in an order of its own,
    so that no client always follows the same other one. Of two overrides of one key the last counts, as in Hydra.
    ``+options_for.CLIENT.OPTION`` is an option of one of the clients, and each of its values is another contestant.

    *Source*: blocks that are randomised; Fisher, "The Design of Experiments" (1935).

    Args:
        overrides: those of ``hydra.sweeper.params`` first, then those of the command.
        default_clients: who is measured where no override says it.
        order_seed: draws the orders; None has all repeats in the order of the first.

    Raises:
        ConfigurationError: a key is swept in a way that has no list of values, or a value is there twice.
    """
    values = values_of(overrides)
    own = {key: values.pop(key) for key in list(values) if client_option(key)}
    clients = values.pop(_CLIENT, [f"{_CLIENT}={name}" for name in default_clients])
    variants = _variants(clients, own)
    ordered = sorted(values, key=lambda key: key != _REPEAT)
    others = itertools.product(*(values[key] for key in ordered))
    points = [(*other, *variant) for other in others for variant in variants]
    if order_seed is not None and clients:
        points = _reordered(points, first=values.get(_REPEAT, [""])[0], clients=len(variants), seed=order_seed)
    return Points(
        points=points,
        varying=tuple(key.lstrip("+~") for key in ordered if len(values[key]) > 1 and key != _REPEAT),
    )


def values_of(overrides: Sequence[Override]) -> dict[str, list[str]]:
    """The overrides that each key is to have one after another: one a value.

    Args:
        overrides: of which the last of a key counts.

    Raises:
        ConfigurationError: a key is swept in a way that has no list of values, or a value is there twice.
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
        twice = [text for text, count in Counter(values[key]).items() if count > 1]
        if twice:
            raise ConfigurationError(
                f"{override.input_line}: {twice[0]} is there more than once; name each value once, and repeat jobs by "
                f"{_REPEAT}=range(N)"
            )
    return values


def client_option(key: str) -> tuple[str, str] | None:
    """The client and the option of it that a key ``options_for.CLIENT.OPTION`` sets; None for any other key."""
    bare = key.lstrip("+")
    # A name may have dots, an option has none.
    name, _, option = bare.removeprefix(f"{_OPTIONS_FOR}.").rpartition(".")
    return (name, option) if bare.startswith(f"{_OPTIONS_FOR}.") else None


def option_override(option: str, value: str) -> str:
    """The override that gives the client of a job an option."""
    return f"++client.options.{option}={value}"


def options_by_client(clients: Sequence[str], own: Mapping[str, Sequence[str]]) -> dict[str, list[list[str]]]:
    """The overrides that set the options of each client, for each of its options one a value.

    Args:
        clients: their names.
        own: the overrides of ``options_for.CLIENT.OPTION``, by that key.

    Raises:
        ConfigurationError: one is of a client that is not among them.
    """
    options: dict[str, list[list[str]]] = {name: [] for name in clients}
    for key, texts in own.items():
        name, option = client_option(key) or ("", "")
        if name not in options:
            close = difflib.get_close_matches(name, clients, n=1)
            hint = f": did you mean {_OPTIONS_FOR}.{close[0]}.{option}?" if close else ""
            raise ConfigurationError(
                f"{key} is of a client that is not measured{hint} (the clients are {', '.join(clients)})"
            )
        options[name].append([option_override(option, text.partition("=")[2]) for text in texts])
    return options


def _variants(clients: Sequence[str], own: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """The overrides that choose each client, once for each combination of the options that are its own."""
    names = [client.partition("=")[2] for client in clients]
    options = options_by_client(names, own)
    return [
        (client, *chosen)
        for client, name in zip(clients, names, strict=True)
        for chosen in itertools.product(*options[name])
    ] or [()]


def _reordered(points: Sequence[tuple[str, ...]], *, first: str, clients: int, seed: int) -> list[tuple[str, ...]]:
    """The points with the clients of each repeat but the first in an order of its own, all other keys as they are."""
    found: list[tuple[str, ...]] = []
    for start in range(0, len(points), clients):
        block = list(points[start : start + clients])
        if first and first not in block[0]:
            # A string seeds by its bytes, so that neighbouring repeats share nothing.
            random.Random(f"{seed}/{' '.join(block[0][:-1])}").shuffle(block)  # noqa: S311 - an order, not a secret
        found += block
    return found


def _without_repeat(point: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in point if not text.startswith(f"{_REPEAT}="))
