"""One point of a sweep of the listing scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bucketbench.configuration.settings import JobSettings
from bucketbench.configuration.values import Rule
from bucketbench.errors import PreflightError
from bucketbench.scenarios.listing.names import NamesSpec
from bucketbench.scenarios.listing.schema import RULES, ListingConfig
from bucketbench.units import format_bytes, parse_count, parse_size

__all__ = ["ListingSettings"]

_MEMORY_SHARE: Final = 0.8
"""The part of the memory that names may take. *Source*: ours; the rest is for the interpreters."""

_NAME_BYTES: Final = 2_100
"""What a name takes in the testbed, the measured process and a client that keeps it in objects of its own, together.

*Source*: measured with 60,000 and 200,000 names: the testbed 690 bytes, the expected names 200, and s3fs, the client
that takes most, 1,180.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListingSettings(JobSettings):
    """The composed configuration of one job of the listing scenario, every value checked."""

    schema: ClassVar = ListingConfig
    rules: ClassVar[Mapping[str, Rule]] = RULES
    no_parameters: ClassVar[frozenset[str]] = frozenset({"names.prefix", "names.generate", "names.max_size"})

    @property
    def names(self) -> NamesSpec:
        """What is listed."""
        names = self.config["names"]
        return NamesSpec(
            count=parse_count(names["count"]), shape=names["shape"], max_size_bytes=parse_size(names["max_size"])
        )

    @property
    def prefix(self) -> str:
        """What begins every key: the configured prefix, or one that names the names' description."""
        configured = self.config["names"]["prefix"]
        if configured:
            return f"{str(configured).rstrip('/')}/"
        spec = self.names
        return f"bucketbench/names/{spec.shape}-{spec.count}x{spec.max_size_bytes}B/"

    @property
    def warmup_prefix(self) -> str | None:
        """What begins the keys that are listed before anything is measured, outside the prefix; None for none."""
        return f"{self.prefix.rstrip('/')}.warm-up/" if self.config["warmup"] else None

    def own_parameters(self) -> dict[str, Any]:
        """What is listed, and how often."""
        config, spec = self.config, self.names
        return {
            "names.count": spec.count,
            "names.shape": spec.shape,
            "names.max_size_bytes": spec.max_size_bytes,
            "passes": config["passes"],
            "min_measured_s": config["min_measured_s"] if config["passes"] == "auto" else None,
            "warmup": config["warmup"],
        }

    def check_fits(self, *, memory_bytes: int, free_disk_bytes: int) -> None:
        """Raise where the names exceed the memory; nothing of them is kept on the disk."""
        del free_disk_bytes
        if self.config["ranks"] != 1:
            raise PreflightError(f"ranks={self.config['ranks']}: a listing is one process's work, leave ranks at 1")
        names_bytes = self.names.count * _NAME_BYTES
        if names_bytes > memory_bytes * _MEMORY_SHARE:
            raise PreflightError(
                f"{self.names.count:,} names can take {format_bytes(names_bytes)}, {_NAME_BYTES:,} bytes each, more "
                f"than {_MEMORY_SHARE:.0%} of this machine's {format_bytes(memory_bytes)} of memory: lower names.count"
            )
