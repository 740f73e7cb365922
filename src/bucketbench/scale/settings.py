"""What a simulation needs beside a scenario's own settings: the values of ``conf/scale``, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Final, Self

from bucketbench.configuration.values import check_keys
from bucketbench.errors import ConfigurationError
from bucketbench.units import parse_size

__all__ = ["ScaleSettings"]

_MOST_RANKS: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleSettings:
    """How many ranks, and on what. Each key is explained in ``conf/scale/default.yaml``.

    Raises:
        ConfigurationError: a value cannot be used.
    """

    ranks: tuple[int, ...]
    ranks_per_host: int
    host_bytes_per_s: float
    prefixes: int
    route: str
    shard_size_bytes: int

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any]) -> Self:
        """The settings of the group ``scale``."""
        keys = {"shard_size" if field.name == "shard_size_bytes" else field.name for field in dataclass_fields(cls)}
        check_keys("scale", fields, keys)
        given = fields["ranks"]
        ranks = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not ranks:
            raise ConfigurationError("scale.ranks=[]: expected numbers of ranks, such as ranks=10,100")
        for number in ranks:
            _check_whole("scale.ranks", number, _MOST_RANKS)
        _check_whole("scale.ranks_per_host", fields["ranks_per_host"], 1024)
        _check_whole("scale.prefixes", fields["prefixes"], 1_000_000)
        rate = fields["host_bytes_per_s"]
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ConfigurationError(f"scale.host_bytes_per_s={rate}: expected bytes a second, above 0")
        try:
            shard_size_bytes = parse_size(fields["shard_size"])
        except ValueError as error:
            raise ConfigurationError(f"scale.shard_size: {error}") from None
        return cls(
            ranks=ranks,
            ranks_per_host=fields["ranks_per_host"],
            host_bytes_per_s=float(rate),
            prefixes=fields["prefixes"],
            route=str(fields["route"]),
            shard_size_bytes=shard_size_bytes,
        )


def _check_whole(key: str, value: Any, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ConfigurationError(f"{key}={value}: expected a whole number from 1 to {most}")
