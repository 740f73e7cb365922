"""The network model: what the testbed pretends lies between a client and the bucket."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast, get_args

__all__ = ["Direction", "Distribution", "NetworkModel", "NetworkModelError"]

Distribution = Literal["constant", "lognormal"]
Direction = Literal["both", "download", "upload"]

_FIRST_BYTE_LIMIT_S = 60.0
"""A larger latency would meet every client's own time limit first. *Source*: botocore's default read timeout, 60 s."""


class NetworkModelError(ValueError):
    """A network model holds a value that it cannot have, or a field that there is not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkModel:
    """Latency, bandwidth and request rates.

    The first byte of an answer reaches a client `first_byte` after the request's last byte left it, and the answer's
    bytes then come at `min(connection_bytes_per_s, total_bytes_per_s / connections that are transferring)`. Request
    bodies are taken in by the same formula, with a total of their own (a link carries both directions at once). TCP
    and TLS handshakes are not modelled. `latency.FirstByte` has the formulas of the distribution.

    Args:
        first_byte_s: seconds to the first byte; the median where it is distributed and has no slow tail.
        first_byte_distribution: `constant`, or `lognormal`: times `exp(first_byte_sigma * z)`, z standard normal.
        first_byte_sigma: standard deviation of the logarithm; only for `lognormal`.
        tail_probability: the share of requests that are slow: `tail_first_byte_s` stands in the place of
            `first_byte_s`. 0 for none.
        tail_first_byte_s: seconds to the first byte of slow requests, distributed as the others are; at least
            `first_byte_s`. Without effect where `tail_probability` is 0.
        connection_bytes_per_s: bandwidth of each connection in bytes/s, or None for no limit.
        total_bytes_per_s: bandwidth of all connections together, shared in equal parts, or None for no limit.
        direction: which transfers bandwidth applies to.
        reads_per_s: GET and HEAD requests a second for each prefix (a key up to its last `/`), beyond which they are
            refused as the provider does, S3 with 503 SlowDown, GCS with 429; None for no limit.
        writes_per_s: all other requests, in the same way.
        seed: of the draws; the same seed gives the same sequence of latencies.

    Raises:
        NetworkModelError: a value is out of range; it names the field and the range.
    """

    first_byte_s: float = 0.0
    first_byte_distribution: Distribution = "constant"
    first_byte_sigma: float = 0.0
    tail_probability: float = 0.0
    tail_first_byte_s: float = 0.0
    connection_bytes_per_s: float | None = None
    total_bytes_per_s: float | None = None
    direction: Direction = "both"
    reads_per_s: float | None = None
    writes_per_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._number("first_byte_s", 0, _FIRST_BYTE_LIMIT_S)
        self._number("first_byte_sigma", 0, 5)
        self._number("tail_probability", 0, 1)
        self._number("tail_first_byte_s", 0, _FIRST_BYTE_LIMIT_S)
        for name in ("connection_bytes_per_s", "total_bytes_per_s", "reads_per_s", "writes_per_s"):
            if getattr(self, name) is not None:
                self._number(name, 1, math.inf)
        self._choice("first_byte_distribution", get_args(Distribution))
        self._choice("direction", get_args(Direction))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise NetworkModelError(f"seed is {self.seed!r}; expected an integer")
        if self.first_byte_distribution == "constant" and self.first_byte_sigma:
            raise NetworkModelError(
                f"first_byte_sigma is {self.first_byte_sigma}, which first_byte_distribution=constant would ignore;"
                " choose lognormal, or leave sigma at 0"
            )
        if self.tail_probability and self.tail_first_byte_s < self.first_byte_s:
            raise NetworkModelError(
                f"tail_first_byte_s is {self.tail_first_byte_s}, less than first_byte_s, {self.first_byte_s};"
                " slow requests come later than the others: raise it, or set tail_probability to 0"
            )

    def _number(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not least <= value <= most
            or math.isinf(value)
        ):
            bound = f"{least} or more" if math.isinf(most) else f"from {least} to {most}"
            raise NetworkModelError(f"{name} is {value!r}; expected a number {bound}")

    def _choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise NetworkModelError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(choices)}")

    @property
    def off(self) -> bool:
        """Whether the model changes nothing."""
        limits = (self.connection_bytes_per_s, self.total_bytes_per_s, self.reads_per_s, self.writes_per_s)
        return self.first_byte_s == self.tail_probability == 0 and all(limit is None for limit in limits)

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> "NetworkModel":
        """Returns the model for the fields given, the others at their defaults; raises NetworkModelError for an unknown
        one."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(str(name) for name in set(values) - known)
        if unknown:
            raise NetworkModelError(f"unknown field {unknown[0]}; the fields are {', '.join(sorted(known))}")
        return cls(**cast("dict[str, Any]", dict(values)))

    def to_mapping(self) -> dict[str, object]:
        """Returns all fields by name."""
        return asdict(self)
