"""What the configurations of all scenarios have in common: the names and types of keys, and the checks of their values.

The classes here and in each scenario's ``schema`` give names and types; Hydra refuses an unknown key or a wrong type
when it composes. They are plain, mutable dataclasses, since that is what a structured configuration has to be: a frozen
one would be read-only and could take no override. ``check`` then looks at the values.

This module imports neither Hydra nor OmegaConf: ``"???"`` is OmegaConf's mark for a value that must be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Optional

from bucketbench.configuration.values import DOTTED_PATH, PLAIN_NAME, Rule, matching, one_of, optional, positive, whole
from bucketbench.errors import ConfigurationError

__all__ = ["MISSING", "WORKLOAD_RULES", "ClientConfig", "ScenarioConfig", "TargetConfig", "WorkloadConfig", "check"]

MISSING: Final = "???"
"""What a key holds that must be set by the user."""

ROLES: Final = ("contestant", "reference", "ceiling")
SCHEMES: Final = ("s3", "gs")

# OmegaConf reads the annotations of these classes at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


@dataclass(kw_only=True)
class TargetConfig:
    """Where the data lie. Every key is explained in ``conf/target/*.yaml``."""

    name: str = MISSING
    testbed: bool = False
    scheme: str = "s3"
    bucket: str = MISSING
    endpoint: Optional[str] = None
    region: Optional[str] = None
    path_style: bool = False
    anonymous: bool = False
    ca_bundle: Optional[str] = None
    tls: bool = True
    opaque_etags: bool = False
    listen: str = "127.0.0.1"


@dataclass(kw_only=True)
class ClientConfig:
    """A client under comparison. Every key is explained in ``docs/configuration.md``."""

    name: str = MISSING
    _target_: str = MISSING
    role: str = "contestant"
    requires: list[str] = field(default_factory=list)
    path: Optional[str] = None
    environment: Optional[str] = None
    schemes: list[str] = field(default_factory=lambda: ["s3", "gs"])
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class WorkloadConfig:
    """A published workload that the other groups were set after; see ``conf/workload/*.yaml``."""

    name: str = "none"
    scale: float = 1.0
    accelerator: Optional[str] = None
    utilisation_percent: Optional[float] = None


@dataclass(kw_only=True)
class ScenarioConfig:
    """The keys that every scenario has. Each is explained in the scenarios' files, ``conf/*.yaml``."""

    scenario: str = MISSING
    target: TargetConfig = field(default_factory=TargetConfig)
    network: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, Any] = field(default_factory=dict)
    client: ClientConfig = field(default_factory=ClientConfig)
    sink: dict[str, Any] = field(default_factory=dict)
    default_clients: dict[str, list[str]] = field(default_factory=dict)
    min_measured_s: float = 1.0
    repeat: int = 0
    ranks: int = 1
    nodes: int = 1
    disambiguator: Optional[str] = None
    label: Optional[str] = "${disambiguator}"
    time_limit_s: float = 300.0
    cache_dir: str = ".bucketbench"


_LABEL: Final[Rule] = matching(re.compile(r"\S(.{0,118}\S)?"), "a line of at most 120 characters")

_RULES: Final[Mapping[str, Rule]] = {
    "min_measured_s": positive(86_400),
    "repeat": whole(0, 10_000),
    "ranks": whole(1, 16_384),
    "nodes": whole(1, 4096),
    "disambiguator": optional(PLAIN_NAME, PLAIN_NAME[1]),
    "label": optional(_LABEL, f"null or {_LABEL[1]}"),
    "time_limit_s": positive(7 * 86_400),
    "target.name": PLAIN_NAME,
    "target.scheme": one_of(SCHEMES),
    # Source: Amazon S3 User Guide, "General purpose bucket naming rules"; older buckets may have more characters.
    "target.bucket": matching(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]"), "the name of a bucket"),
    "target.listen": (
        lambda value: value not in ("", "0.0.0.0", "::"),  # noqa: S104 - refused, not used
        "one address of this machine, by which clients reach it, and none that stands for all",
    ),
    "client.name": PLAIN_NAME,
    "client._target_": DOTTED_PATH,
    "client.role": one_of(ROLES),
}

WORKLOAD_RULES: Final[Mapping[str, Rule]] = {
    "workload.name": PLAIN_NAME,
    "workload.scale": positive(1e6),
    "workload.utilisation_percent": optional(positive(100), "null or a number above 0, at most 100"),
}
"""The values of the group ``workload``, for the scenarios that have it."""


def check(config: Mapping[str, Any], *, schema: type[ScenarioConfig], rules: Mapping[str, Rule]) -> None:
    """Raise where a value of one composed and resolved configuration is unset or out of its range.

    Args:
        config: the configuration as plain nested mappings.
        schema: the scenario's.
        rules: of the scenario's own keys, by dotted name.

    Raises:
        ConfigurationError: names the key, the value, what is accepted, and the override that sets it.
    """
    unset = sorted(_unset(config))
    if unset:
        examples = " ".join(f"{key}=VALUE" for key in unset)
        raise ConfigurationError(
            f"{_listed(unset)} must be set and {'is' if len(unset) == 1 else 'are'} not: "
            f"add {examples} to the command, or set it in the configuration's file"
        )
    known = [found.name for found in fields(schema)]
    unknown = sorted(set(config) - set(known))
    if unknown:
        raise ConfigurationError(
            f"{_listed(unknown)} is no key of the {config.get('scenario')} scenario and would have no "
            f"effect: leave it out (the keys are {', '.join(known)})"
        )
    for key, (accepts, words) in (*_RULES.items(), *rules.items()):
        value = _select(config, key)
        try:
            accepted, reason = accepts(value), f"expected {words}"
        except ValueError as error:
            accepted, reason = False, str(error)
        if not accepted:
            raise ConfigurationError(f"{key}={value} cannot be used: {reason}")


def _select(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value


def _unset(value: Any, path: str = "") -> list[str]:
    if value == MISSING:
        return [path]
    if isinstance(value, Mapping):
        return [found for key, item in value.items() for found in _unset(item, f"{path}.{key}" if path else str(key))]
    return []


def _listed(keys: Sequence[str]) -> str:
    return " and ".join(keys)
