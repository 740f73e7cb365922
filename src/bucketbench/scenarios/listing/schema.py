"""The schema of ``conf/listing.yaml``, and which values its keys take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Optional

from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.configuration.values import Rule, one_of, prefix, whole
from bucketbench.scenarios.listing.names import MAX_COUNT, MAX_SIZE_BYTES, SHAPES
from bucketbench.units import parse_count, parse_size

__all__ = ["MAX_PASSES", "RULES", "ListingConfig", "NamesConfig"]

MAX_PASSES: Final = 10_000

# OmegaConf reads the annotations of these classes at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


@dataclass(kw_only=True)
class NamesConfig:
    """What is listed. Every key is explained in ``conf/listing.yaml``."""

    count: Any = "20k"
    shape: str = "numbers"
    max_size: Any = 16
    prefix: Optional[str] = None
    generate: bool = False


@dataclass(kw_only=True)
class ListingConfig(ScenarioConfig):
    """The listing scenario. Every key is explained in ``conf/listing.yaml``."""

    scenario: str = "listing"
    names: NamesConfig = field(default_factory=NamesConfig)
    passes: Any = "auto"
    warmup: bool = True


def _count(value: Any) -> bool:
    return 1 <= parse_count(value) <= MAX_COUNT


def _size(value: Any) -> bool:
    return parse_size(value) <= MAX_SIZE_BYTES


RULES: Final[Mapping[str, Rule]] = {
    "names.count": (_count, f"a whole number from 1 to {MAX_COUNT:,}, such as 2000 or 200k"),
    "names.shape": one_of(tuple(SHAPES)),
    "names.max_size": (_size, f"a size of at most {MAX_SIZE_BYTES:,} bytes, such as 0, 16 or 1KiB"),
    "names.prefix": prefix,
    "passes": (
        lambda value: value == "auto" or whole(1, MAX_PASSES)[0](value),
        f"auto, or a whole number from 1 to {MAX_PASSES}",
    ),
}
"""The values of the scenario's own keys."""
