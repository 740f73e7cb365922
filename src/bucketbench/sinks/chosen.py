"""Which sink a configuration chooses, checked and built."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bucketbench.components import build
from bucketbench.configuration.schema import MISSING
from bucketbench.configuration.values import DOTTED_PATH, PLAIN_NAME
from bucketbench.errors import ConfigurationError
from bucketbench.job.description import Component
from bucketbench.secrecy import secret_keys
from bucketbench.sinks.protocol import Sink
from bucketbench.sweep.preflight import check_component

__all__ = ["NO_SINK", "built_sink", "check_sinks", "chosen_sink"]

NO_SINK: Final = "none"
"""The option of the group ``sink`` by which results are sent nowhere."""

_NOT_OPTIONS: Final = frozenset({"name", "_target_", "requires", "path"})


def chosen_sink(fields: Mapping[str, Any], *, config_directories: Sequence[str] = ()) -> Component | None:
    """The sink that a configuration's group ``sink`` chooses, None where it chooses none.

    Args:
        fields: the group's keys, resolved.
        config_directories: where a sink of the user's own is found, unless its ``path`` says it.

    Raises:
        ConfigurationError: a key is unset, wrong, or a credential.
    """
    name = fields.get("name", NO_SINK)
    if name == NO_SINK:
        return None
    unset = [f"sink.{key}" for key, value in fields.items() if value == MISSING]
    if unset:
        raise ConfigurationError(
            f"{' and '.join(unset)} must be set and {'is' if len(unset) == 1 else 'are'} not: "
            f"add {' '.join(f'{key}=VALUE' for key in unset)} to the command"
        )
    secret = secret_keys(fields, "sink")
    if secret:
        raise ConfigurationError(
            f"{' and '.join(secret)} would put a credential into results and logs; a sink's library finds credentials "
            "in the environment or a profile: leave the key out"
        )
    for key, (accepts, words) in (("name", PLAIN_NAME), ("_target_", DOTTED_PATH)):
        if not accepts(fields.get(key)):
            raise ConfigurationError(f"sink.{key}={fields.get(key)} cannot be used: expected {words}")
    path = fields.get("path")
    return Component(
        name=name,
        target=fields["_target_"],
        requires=tuple(fields.get("requires") or ()),
        search_path=(str(Path(path).expanduser().absolute()),) if path else tuple(config_directories),
        options={key: value for key, value in fields.items() if key not in _NOT_OPTIONS},
    )


def check_sinks(sinks: Sequence[Mapping[str, Any]], *, config_directories: Sequence[str]) -> None:
    """Raise where the results of a sweep could not be sent anywhere, before it starts. No network is reached.

    Args:
        sinks: the group ``sink`` of the sweep's configuration and of each point's.
        config_directories: as for ``chosen_sink``.

    Raises:
        ConfigurationError: they differ, or an argument of the one sink cannot be used.
        PreflightError: a package that it needs is missing.
    """
    first = sinks[0]
    if any(other != first for other in sinks):
        raise ConfigurationError(
            "sink cannot be swept: a run goes to one sink, when it is over; leave one in the command, and send the run "
            "to another one later with bucketbench push RUN sink=…"
        )
    sink = chosen_sink(first, config_directories=config_directories)
    if sink is not None:
        built_sink(sink)


def built_sink(component: Component) -> Sink:
    """The sink itself; its arguments are checked, and no network is reached.

    Raises:
        ConfigurationError: an argument cannot be used, or there is no such class.
        PreflightError: a package that it needs is missing.
    """
    check_component("sink", component, python_path=sys.path)
    sink: Sink = build(component)
    return sink
