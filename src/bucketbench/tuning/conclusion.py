"""What a search found, how sure that is, and what it would cost to be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bucketbench.report.wording import broken_rules
from bucketbench.statistics.intervals import Interval, interval_obstacle, ratio_interval
from bucketbench.statistics.percentiles import median
from bucketbench.tuning.measured import Measured, Setting

__all__ = ["Conclusion", "Ratio", "setting_text"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """How many times the speed of another setting one has.

    Args:
        times: the median of the repeats' ratios; None where no repeat has both.
        interval: where the true ratio lies; None where that cannot be said, for `obstacle`.
        obstacle: why not.
    """

    times: float | None
    interval: Interval | None
    obstacle: str | None = None

    @classmethod
    def of(cls, one: Measured, other: Measured) -> Ratio:
        """From the repeats that both have."""
        mine, others = one.pairs(other)
        obstacle = interval_obstacle([a / b for a, b in zip(mine, others, strict=True)])
        return cls(
            times=one.times(other) if mine else None,
            interval=None if obstacle else ratio_interval(mine, others),
            obstacle=obstacle,
        )

    @property
    def decided(self) -> bool:
        """Whether the one is known to be faster than the other."""
        return self.interval is not None and self.interval.low > 1

    def __str__(self) -> str:
        if self.times is None:
            return "an unknown number of times (no repeat in which both have valid figures)"
        if self.interval is None:
            return f"{self.times:.2f} times ({self.obstacle})"
        between = f"{self.interval.low:.2f} to {self.interval.high:.2f}; {self.interval.confidence:.1%} confidence"
        return f"{self.times:.2f} times ({between})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Conclusion:
    """The best setting of a search, by the last comparison, in which the finalists were measured in turns.

    Args:
        best: the setting with the highest median among the finalists within the limit.
        runner_up: the next one; None where there is none.
        reference: the configuration as it stands, in the same comparison.
        trials: what each setting of the search has, as times the reference; None for one that failed.
        over_limit: how many of them are over the limit of memory, or not known to be within it.
        unit: of the figure.
        searched: all that was measured before, with the words that tell it.
    """

    best: Measured
    runner_up: Measured | None
    reference: Measured
    trials: Mapping[Setting, float | None]
    over_limit: int
    unit: str
    searched: Sequence[tuple[str, Measured]] = ()

    def lines(self) -> Iterator[str]:
        """What to tell, a line each."""
        memory = "memory not measured" if self.best.memory_mib is None else f"{self.best.memory_mib:,.0f} MiB of memory"
        counted, repeats = len(self.best.speeds), self.best.repeats
        part = f" in {counted} of {repeats} repeats" if counted < repeats else ""
        yield f"best: {setting_text(self.best.setting)}: {self.best.median:,.1f} {self.unit}{part}, {memory}"
        if self.runner_up is not None:
            yield from self._against_runner_up(self.runner_up)
        if self.best.setting and self.runner_up is not self.reference:
            ratio = Ratio.of(self.best, self.reference)
            yield f"the configuration as it stands: the best has {ratio} its throughput"
        yield from broken_rules((setting_text(one.setting), one) for one in self._finalists())
        yield from self._spread()
        yield from (f"in the search: {line}" for line in broken_rules(self.searched))

    def _finalists(self) -> list[Measured]:
        """Those that the conclusion is about."""
        told = [self.best, *([] if self.runner_up is None else [self.runner_up])]
        return told if any(one is self.reference for one in told) else [*told, self.reference]

    def _against_runner_up(self, runner_up: Measured) -> Iterator[str]:
        ratio = Ratio.of(self.best, runner_up)
        yield f"runner-up: {setting_text(runner_up.setting)}: the best has {ratio} its throughput"
        yield f"how sure: {_how_sure(ratio)}{self._doubted(runner_up)}"

    def _doubted(self, runner_up: Measured) -> str:
        named = [setting_text(one.setting) for one in (self.best, runner_up) if one.doubtful]
        return f"; the figures of {' and '.join(named)} are doubtful" if named else ""

    def _spread(self) -> Iterator[str]:
        known = sorted(value for value in self.trials.values() if value is not None)
        failed = len(self.trials) - len(known)
        if known:
            best = known[-1]
            yield (
                f"of {len(self.trials)} settings tried within the limit, the one in the middle has "
                f"{median(known) / best:.0%} and the worst {known[0] / best:.0%} of the fastest one's throughput"
            )
        if self.over_limit:
            yield f"{self.over_limit} more {'was' if self.over_limit == 1 else 'were'} over the limit of memory"
        if failed:
            yield f"{failed} of them failed"

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""

        def ratio(other: Measured | None) -> dict[str, Any] | None:
            if other is None:
                return None
            found = Ratio.of(self.best, other)
            ends = found.interval and [found.interval.low, found.interval.high, found.interval.confidence]
            return {"setting": list(other.setting), "times": found.times, "interval": ends, "obstacle": found.obstacle,
                    "marks": _marks(other)}  # fmt: skip

        trials: Sequence[dict[str, Any]] = [
            {"setting": list(setting), "times_reference": value} for setting, value in self.trials.items()
        ]
        return {
            "schema_version": 1,
            "best": {"setting": list(self.best.setting), "median": self.best.median, "unit": self.unit,
                     "memory_mib": self.best.memory_mib, "marks": _marks(self.best)},
            "best_over_runner_up": ratio(self.runner_up),
            "best_over_reference": ratio(self.reference),
            "trials": trials,
            "over_limit": self.over_limit,
            "marks_in_search": [{"what": what, "marks": _marks(one)} for what, one in self.searched if one.marks],
        }  # fmt: skip


def _how_sure(ratio: Ratio) -> str:
    if ratio.interval is None or ratio.times is None:
        return "not known, with so few repeats of the finalists (repeat=range(6) and more)"
    if ratio.decided:
        return f"decided; to take the runner-up instead would cost {1 - 1 / ratio.times:.0%} of the throughput"
    lost = 1 - ratio.interval.low
    return f"undecided; should the runner-up be better after all, this choice costs at most {lost:.0%}"


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    return " ".join(setting) or "the configuration as it stands"


def _marks(one: Measured) -> list[dict[str, Any]]:
    return [{**asdict(mark), "state": str(mark.state)} for mark in one.marks]
