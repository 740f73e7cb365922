"""One client against another, repeat by repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bucketbench.statistics.figures import Better
from bucketbench.statistics.intervals import Interval, interval_obstacle, ratio_interval
from bucketbench.statistics.summary import FigureSummary, IncomparableError, Summary

__all__ = ["Comparison", "ahead_of", "compare", "figure_of", "require_comparable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """How many times the figure of one client is that of another.

    Args:
        numerator: the client that is compared.
        denominator: the client that it is compared with.
        figure: the figure's name.
        ratio: the geometric mean of the numerator's values over the denominator's, repeat by repeat; of their medians
            where they have no repeat in common.
        repeats: repeats that both have.
        interval: of the ratio, None where none can be made.
        obstacle: why there is no interval, None where there is one.
    """

    numerator: str
    denominator: str
    figure: str
    ratio: float
    repeats: int
    interval: Interval | None
    obstacle: str | None

    @property
    def decided(self) -> bool:
        """Whether the interval excludes that both are equal."""
        return self.interval is not None and 1.0 not in self.interval

    @property
    def above(self) -> bool:
        """Whether the interval lies above 1: of a ratio that tells how many times better, whether it surely is better.

        The best median alone may have one below: a client that is a little ahead in most repeats, and far behind in the
        others.
        """
        return self.interval is not None and self.interval.low > 1


def compare(numerator: Summary, denominator: Summary, *, figure: str) -> Comparison:
    """Compare one figure of two clients; swapping them inverts the ratio and its interval.

    Args:
        numerator: the client to compare.
        denominator: the client to compare it with.
        figure: the figure's name.

    Raises:
        IncomparableError: where scenario, parameters or unit differ, or the figure is unknown or has no value above 0.
    """
    require_comparable(numerator, denominator)
    above, below = figure_of(numerator, figure), figure_of(denominator, figure)
    if above.unit != below.unit:
        raise IncomparableError(
            f"{figure} is in {above.unit} for {numerator.client} and {below.unit} for {denominator.client}"
        )
    for summary, values in ((numerator, above.by_repeat), (denominator, below.by_repeat)):
        if not values or min(values.values()) <= 0:
            raise IncomparableError(
                f"{summary.client} has no {figure} above 0 to compare: {dict(values) or 'no value'}"
            )
    common = sorted(above.by_repeat.keys() & below.by_repeat.keys())
    numerators = [above.by_repeat[repeat] for repeat in common]
    denominators = [below.by_repeat[repeat] for repeat in common]
    obstacle = interval_obstacle([high / low for high, low in zip(numerators, denominators, strict=True)])
    return Comparison(
        numerator=numerator.client,
        denominator=denominator.client,
        figure=figure,
        ratio=_mean_ratio(numerators, denominators) if common else (above.median or 0.0) / (below.median or 1.0),
        repeats=len(common),
        interval=None if obstacle else ratio_interval(numerators, denominators),
        obstacle=obstacle,
    )


def ahead_of(first: Summary, other: Summary, *, figure: str, better: Better) -> Comparison:
    """How many times better the first is, whichever values are the better ones.

    Raises:
        IncomparableError: as of ``compare``.
    """
    if better is not Better.LOWER:
        return compare(first, other, figure=figure)
    return replace(compare(other, first, figure=figure), numerator=first.client, denominator=other.client)


def _mean_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    logarithms = [math.log(above) - math.log(below) for above, below in zip(numerators, denominators, strict=True)]
    # Summed exactly, so that the order of the repeats changes nothing.
    return math.exp(math.fsum(logarithms) / len(logarithms))


def figure_of(summary: Summary, name: str) -> FigureSummary:
    """A figure of a client.

    Raises:
        IncomparableError: there is no such figure.
    """
    if name not in summary.figures:
        raise IncomparableError(
            f"there is no figure {name!r}; {summary.client} has {', '.join(sorted(summary.figures))}"
        )
    return summary.figures[name]


def require_comparable(one: Summary, other: Summary) -> None:
    """Raise an `IncomparableError` that names what differs, where two clients were not measured alike."""
    if one.scenario != other.scenario:
        raise IncomparableError(
            f"{one.client} and {other.client} are not comparable: scenarios {one.scenario!r} and {other.scenario!r}"
        )
    absent = object()
    differing = sorted(
        name
        for name in {*one.parameters, *other.parameters}
        if one.parameters.get(name, absent) != other.parameters.get(name, absent)
    )
    if differing:
        details = ", ".join(
            f"{name} is {one.parameters.get(name, 'absent')!r} and {other.parameters.get(name, 'absent')!r}"
            for name in differing
        )
        raise IncomparableError(f"{one.client} and {other.client} are not comparable: {details}")
