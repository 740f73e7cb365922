"""Composes what a simulation is of: a scenario's configuration, as a sweep composes it, and what is beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bucketbench.configuration.settings import JobSettings
from bucketbench.cost.prices import PriceList
from bucketbench.errors import ConfigurationError
from bucketbench.job.composed import settings_of
from bucketbench.scale.service import ServiceLimits
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scenarios import find_scenario
from bucketbench.sweep.entry import known_keys, register_scenario
from bucketbench.sweep.messages import explained

__all__ = ["Composed", "composed"]

_GROUPS: Final = ("scale", "service", "prices")
"""What is beside the scenario's configuration."""

_RANKS: Final = "ranks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """What a simulation is of.

    Args:
        settings: of the scenario.
        scale: on how many ranks, and what hosts.
        limits: of the service.
        prices: of the service.
    """

    settings: JobSettings
    scale: ScaleSettings
    limits: ServiceLimits
    prices: PriceList


def composed(scenario: str, arguments: Sequence[str]) -> Composed:
    """Compose a command line.

    Args:
        scenario: name of the scenario.
        arguments: Hydra overrides. Those of ``ranks``, and of the groups ``scale``, ``service`` and ``prices``, are of
            the simulation, the others of the scenario. Where service and prices are not chosen, they are those of the
            target's scheme.

    Raises:
        ConfigurationError: a key or value cannot be used, or the prices are of another service.
        UsageError: there is no such scenario.
    """
    found = find_scenario(scenario)
    conf = register_scenario(found)
    try:
        overrides = OverridesParser.create().parse_overrides(list(arguments))
        own = [override for override in overrides if _is_beside(override)]
        others = [override for override in overrides if not _is_beside(override)]
        _refuse_sweeps(others)
        with initialize_config_dir(version_base="1.3", config_dir=str(conf)):
            config = compose(scenario, overrides=_texts(others), return_hydra_config=True)
            settings = settings_of(config, config.hydra)
            beside = compose(None, overrides=list(_beside(own, settings.config["target"]["scheme"])))
    except (HydraException, OmegaConfBaseException) as error:
        text = explained(error, scenario=scenario, keys=known_keys(found.settings.schema))
        raise ConfigurationError(text) from error
    fields: Any = OmegaConf.to_container(beside, resolve=True)
    prices = PriceList.from_mapping(fields["prices"])
    if prices.scheme != settings.config["target"]["scheme"]:
        raise ConfigurationError(
            f"the price list {prices.name} is of {prices.scheme}://, and target={settings.config['target']['name']} "
            f"speaks {settings.config['target']['scheme']}://: choose prices={settings.config['target']['scheme']}, or "
            "another target"
        )
    return Composed(
        settings=settings,
        scale=ScaleSettings.from_mapping(fields["scale"]),
        limits=ServiceLimits.from_mapping(fields["service"]),
        prices=prices,
    )


def _is_beside(override: Override) -> bool:
    """Whether it is of the simulation, and not of the scenario."""
    key = str(override.key_or_group)
    return key == _RANKS or key.partition(".")[0] in _GROUPS


def _texts(overrides: Iterable[Override]) -> list[str]:
    return [str(override.input_line) for override in overrides]


def _refuse_sweeps(overrides: Iterable[Override]) -> None:
    for override in overrides:
        if override.is_sweep_override():
            raise ConfigurationError(
                f"{override.input_line}: a simulation is of one configuration; only ranks may have several values"
            )


def _beside(overrides: Iterable[Override], scheme: str) -> Iterable[str]:
    """The overrides that compose the groups of the simulation."""
    chosen = dict(zip(_GROUPS, ("default", scheme, scheme), strict=True))
    values: list[str] = []
    for override in overrides:
        key = str(override.key_or_group)
        if key == _RANKS:
            if override.is_discrete_sweep():
                values.append(f"scale.ranks=[{','.join(override.sweep_string_iterator())}]")
            else:
                values.append(f"scale.ranks={override.get_value_element_as_str()}")
        elif key in _GROUPS:
            chosen[key] = override.get_value_element_as_str()
        else:
            _refuse_sweeps([override])
            values.append(str(override.input_line))
    return [*(f"+{group}={name}" for group, name in chosen.items()), *values]
