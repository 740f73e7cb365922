"""Which requests faults are injected into: the same ones for the same seed and the same sequence of requests."""

import fnmatch
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from buckettestbed.faults.rules import FaultError, FaultKind, FaultRule

__all__ = ["Fault", "FaultPlan", "FaultSet"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultSet:
    """Rules in their order, and the seed of their draws; what a file in `conf/faults/` holds."""

    rules: tuple[FaultRule, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise FaultError(f"seed is {self.seed!r}; expected an integer")

    @classmethod
    def from_value(cls, value: object) -> "FaultSet":
        """Returns the set for a mapping of `seed` and `rules`, or for a list of rules; raises FaultError, which says
        which rule is wrong and how."""
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = {"rules": value}
        if not isinstance(value, Mapping):
            raise FaultError(
                f"the faults are {type(value).__name__}; expected a mapping of seed and rules, or a list of rules"
            )
        unknown = sorted(str(name) for name in value if name not in ("seed", "rules"))
        if unknown:
            raise FaultError(f"unknown field {unknown[0]}; the fields are seed and rules")
        rules = value.get("rules", ())
        if not isinstance(rules, Sequence) or isinstance(rules, str):
            raise FaultError(f"rules is {rules!r}; expected a list of rules")
        built = []
        for number, rule in enumerate(rules, start=1):
            try:
                built.append(FaultRule.from_mapping(rule))
            except FaultError as error:
                raise FaultError(f"rule {number}: {error}") from None
        return cls(rules=tuple(built), seed=value.get("seed", 0))

    def to_mapping(self) -> dict[str, object]:
        """Returns the seed and the rules as plain values."""
        return {"seed": self.seed, "rules": [rule.to_mapping() for rule in self.rules]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A fault of one request.

    `rule` says what happens; `share`, from 0 to below 1, is where a corrupted byte lies when the rule has no place, and
    `mask` what it is XORed with, from 1 to 255.
    """

    rule: FaultRule
    share: float = 0.5
    mask: int = 1

    @property
    def kind(self) -> FaultKind:
        """What happens."""
        return self.rule.kind

    @property
    def has_place(self) -> bool:
        """Whether the rule names a place inside the answer's body."""
        return self.rule.after_bytes is not None or self.rule.after_fraction is not None

    def place(self, size_bytes: int) -> int:
        """Returns how many bytes of a body of this size go unharmed before the fault: at most all but one."""
        if self.rule.after_bytes is not None:
            wanted = self.rule.after_bytes
        elif self.rule.after_fraction is not None:
            wanted = int(self.rule.after_fraction * size_bytes)
        else:
            wanted = int((self.share if self.kind == "corrupt" else 0.5) * size_bytes)
        return max(0, min(wanted, size_bytes - 1))


class FaultPlan:
    """Draws faults for requests in the order in which they come. One event loop owns it.

    Every rule counts each request that it matches, whether or not an earlier one injects its fault; of those that are
    due the first does. Each rule draws from a sequence of its own, so that one more rule changes no other's draws.
    """

    def __init__(self, faults: FaultSet) -> None:
        self.faults = faults
        self._tracks = [
            _Track(rule, random.Random(f"{faults.seed}/{number}"))  # noqa: S311 - reproducible draws, no secret.
            for number, rule in enumerate(faults.rules)
        ]
        self._places = random.Random(f"{faults.seed}/places")  # noqa: S311 - likewise.

    def draw(
        self, *, dialect: str, operation: str, method: str, bucket: str, name: str, continues: bool = False
    ) -> Fault | None:
        """Returns the fault to inject into the request, or None.

        Args:
            dialect: `s3` or `gcs`.
            operation: name of what is asked for.
            method: of HTTP.
            bucket: name of the bucket.
            name: the key, or a listing's prefix.
            continues: whether a listing is asked for a page after its first.
        """
        injecting: _Track | None = None
        for track in self._tracks:
            if track.matches(dialect, operation, method, bucket, name, continues) and track.due() and injecting is None:
                injecting = track
        if injecting is None:
            return None
        injecting.injected += 1
        return Fault(rule=injecting.rule, share=self._places.random(), mask=self._places.randint(1, 255))

    def snapshot(self) -> dict[str, object]:
        """Returns the seed and the rules, each with how many requests it `matched` and faults it `injected`."""
        rules = [
            {**track.rule.to_mapping(), "matched": track.matched, "injected": track.injected} for track in self._tracks
        ]
        return {"seed": self.faults.seed, "rules": rules}


class _Track:
    """One rule at work."""

    __slots__ = ("_bucket", "_dialect", "_key", "_methods", "_operations", "_random", "injected", "matched", "rule")

    def __init__(self, rule: FaultRule, draws: random.Random) -> None:
        self.rule = rule
        self.matched = 0
        self.injected = 0
        self._operations = rule.concerned_operations
        self._methods = rule.concerned_methods
        self._dialect = rule.concerned_dialect
        self._bucket, self._key = (
            None if pattern == "*" else re.compile(fnmatch.translate(pattern)) for pattern in (rule.bucket, rule.key)
        )
        self._random = draws

    def matches(self, dialect: str, operation: str, method: str, bucket: str, name: str, continues: bool) -> bool:
        rule = self.rule
        return (
            (self._operations is None or operation in self._operations)
            and (self._methods is None or method in self._methods)
            and (self._dialect is None or self._dialect == dialect)
            and (self._bucket is None or self._bucket.match(bucket) is not None)
            and (self._key is None or self._key.match(name) is not None)
            and (continues or rule.kind != "repeat_page")
        )

    def due(self) -> bool:
        """Counts a request that matches; returns whether the rule would inject its fault."""
        rule = self.rule
        self.matched += 1
        number = self.matched - rule.after
        drawn = rule.probability is None or self._random.random() < rule.probability
        return (
            drawn
            and number >= 1
            and (rule.nth is None or number == rule.nth)
            and (rule.every is None or number % rule.every == 0)
            and (rule.times is None or self.injected < rule.times)
        )
