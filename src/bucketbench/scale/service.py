"""What a storage service promises of requests a second, and how long so many take within it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from bucketbench.configuration.values import check_keys
from bucketbench.errors import ConfigurationError

__all__ = ["Kind", "ServiceLimits", "kind_of"]


class Kind(StrEnum):
    """What services count apart."""

    READS = "reads"
    WRITES = "writes"


_KEYS: Final = ("name", "as_of", "sources", "reads_per_s", "writes_per_s", "per", "doubling_s")
_READS: Final = ("get_", "head_", "list_")


def kind_of(operation: str) -> Kind:
    """What an operation counts as, by its name; a listing is a read, whatever it costs."""
    return Kind.READS if operation.startswith(_READS) else Kind.WRITES


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceLimits:
    """The limits of a service.

    Args:
        name: of the service.
        per_s: requests a second, by their kind.
        per_prefix: whether they are of each prefix that the service has split; else of a bucket.
        doubling_s: in how many seconds a rate above them may double; None where it may not grow in the time of a save.
        as_of: the day that they are of.
        sources: where they stand.
    """

    name: str
    per_s: Mapping[Kind, float]
    per_prefix: bool
    doubling_s: float | None
    as_of: str
    sources: tuple[str, ...]

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any]) -> Self:
        """The limits of a file of ``conf/service``.

        Raises:
            ConfigurationError: a value cannot be used.
        """
        check_keys("service", fields, _KEYS)
        for key in ("reads_per_s", "writes_per_s", "doubling_s"):
            value = fields[key]
            if value is None and key == "doubling_s":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigurationError(f"service.{key}={value}: expected a number above 0")
        if fields["per"] not in ("prefix", "bucket"):
            raise ConfigurationError(f"service.per={fields['per']}: expected prefix or bucket")
        return cls(
            name=str(fields["name"]),
            per_s={Kind.READS: float(fields["reads_per_s"]), Kind.WRITES: float(fields["writes_per_s"])},
            per_prefix=fields["per"] == "prefix",
            doubling_s=fields["doubling_s"],
            as_of=str(fields["as_of"]),
            sources=tuple(map(str, fields["sources"])),
        )

    def allowed_per_s(self, kind: Kind, prefixes: int) -> float:
        """How many a second may be asked for at once, over so many prefixes."""
        return self.per_s[kind] * (prefixes if self.per_prefix else 1)

    def least_s(self, kind: Kind, requests: float, asked_per_s: float, prefixes: int) -> float:
        """How long requests take at least.

        Below the limit they take what the caller takes. Above it their rate begins at the limit and, where it may grow,
        doubles every ``doubling_s`` up to what is asked for: after ``t`` seconds ``limit * D / ln 2 * (2 ** (t / D) -
        1)`` are done.

        Args:
            kind: what they count as.
            requests: how many.
            asked_per_s: how many a second the callers would ask for.
            prefixes: over how many they are spread evenly.
        """
        allowed = self.allowed_per_s(kind, prefixes)
        if not requests or asked_per_s <= allowed:
            return 0.0
        if self.doubling_s is None:
            return requests / allowed
        grown = allowed * self.doubling_s / math.log(2)  # what is done while the rate doubles
        done = grown * (asked_per_s / allowed - 1)  # until it is what is asked for
        if requests <= done:
            return self.doubling_s * math.log2(1 + requests / grown)
        return self.doubling_s * math.log2(asked_per_s / allowed) + (requests - done) / asked_per_s
