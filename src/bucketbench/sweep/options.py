"""What ``hydra.sweeper`` may say, whichever of bucketbench's sweepers it chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from bucketbench.errors import ConfigurationError
from bucketbench.job.options import no_such_option

__all__ = ["LaunchOptions", "SweepOptions", "is_whole"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchOptions:
    """The options that every sweeper has; the files in ``conf/hydra/sweeper/`` explain them.

    Args:
        params: values of the configuration's files, by key, as Hydra's own sweeper takes swept ones.
        jobs_at_once: how many jobs a launcher gets at once; None for all.
        parallel_on_one_host: whether jobs may run at the same time on one machine, where they disturb each other.
        dry_run: whether it is told what would be done, and nothing is run or made.

    Raises:
        ConfigurationError: a value cannot be used.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    jobs_at_once: int | None = 1
    parallel_on_one_host: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.params, Mapping):
            raise _refusal("params", self.params, "a mapping of keys to values, such as {repeat: range(6)}")
        if self.jobs_at_once is not None and not is_whole(self.jobs_at_once, least=1):
            raise _refusal("jobs_at_once", self.jobs_at_once, "a whole number from 1, or null for all")
        for name in ("parallel_on_one_host", "dry_run"):
            if not isinstance(getattr(self, name), bool):
                raise _refusal(name, getattr(self, name), "true or false")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options that a configuration gives.

        Args:
            given: ``hydra.sweeper`` without its target; ``params`` may be null.

        Raises:
            ConfigurationError: there is no option of a name, or a value cannot be used.
        """
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise ConfigurationError(f"hydra.sweeper: {no_such_option(name, known)}")
        return cls(**{**given, "params": {} if given.get("params") is None else given["params"]})

    @property
    def written(self) -> list[str]:
        """The overrides that ``params`` stands for."""
        return [f"{key}={value}" for key, value in self.params.items()]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepOptions(LaunchOptions):
    """The options of a sweep.

    Args:
        order_seed: draws the order of the clients in each repeat after the first; None keeps one order.
    """

    order_seed: int | None = 0


def is_whole(value: object, *, least: int) -> bool:
    """Whether a value is a whole number from one on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _refusal(name: str, value: object, expected: str) -> ConfigurationError:
    return ConfigurationError(f"hydra.sweeper.{name}={value} cannot be used: expected {expected}")
