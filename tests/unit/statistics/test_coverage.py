"""How often an interval holds the truth, and how often a client that is slower is found, by simulation.

Each simulated figure is drawn anew with a fixed seed. The tolerance is four standard errors of the simulated share, so
that a right interval fails one seed in 16,000, and one of 93 % coverage would be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import numpy.typing
import pytest

from bucketbench.statistics import CONFIDENCE, Interval, median_interval, ratio_interval

ROUNDS = 4000
ALLOWED = 4 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / ROUNDS)

Values = numpy.typing.NDArray[numpy.float64]
Draw = Callable[[numpy.random.Generator, tuple[int, int]], Values]

# Speeds whose median is 1, as the repeats of a client scatter around it.
SPEEDS: dict[str, Draw] = {
    "normal": lambda generator, size: numpy.maximum(generator.normal(1, 0.1, size), 0.01),
    "lognormal": lambda generator, size: generator.lognormal(0, 0.3, size),
    "heavy tail": lambda generator, size: numpy.exp(0.05 * numpy.clip(generator.standard_cauchy(size), -1e3, 1e3)),
    "stalls of one side": lambda generator, size: 1 / (1 + generator.exponential(0.2, size)),
}


def covered(intervals: list[Interval], truth: float) -> float:
    return sum(truth in interval for interval in intervals) / len(intervals)


@pytest.mark.parametrize("name", SPEEDS)
@pytest.mark.parametrize("repeats", [6, 7, 8])
def test_the_ratio_of_two_equal_clients_is_covered_as_often_as_the_interval_says(name: str, repeats: int) -> None:
    generator = numpy.random.default_rng(1)
    ours, theirs = (SPEEDS[name](generator, (ROUNDS, repeats)) for _ in range(2))
    # Twice as fast in truth, on a host that is now fast and now slow for both.
    host = generator.lognormal(0, 0.5, (ROUNDS, repeats))
    pairs = zip((2 * ours * host).tolist(), (theirs * host).tolist(), strict=True)
    intervals = [ratio_interval(above, below) for above, below in pairs]
    confidence = intervals[0].confidence
    assert CONFIDENCE <= confidence < 0.97
    assert covered(intervals, 2.0) == pytest.approx(confidence, abs=ALLOWED)


@pytest.mark.parametrize("name", ["normal", "lognormal", "heavy tail"])
@pytest.mark.parametrize("repeats", [6, 7, 9])
def test_the_median_is_covered_as_often_as_the_interval_says(name: str, repeats: int) -> None:
    drawn = SPEEDS[name](numpy.random.default_rng(2), (ROUNDS, repeats))
    intervals = [median_interval(values) for values in drawn.tolist()]
    confidence = intervals[0].confidence
    assert confidence >= CONFIDENCE
    assert covered(intervals, 1.0) == pytest.approx(confidence, abs=ALLOWED)


@pytest.mark.parametrize(("repeats", "found"), [(6, 0.8), (7, 0.95), (8, 0.98)])
def test_a_client_that_is_15_percent_slower_is_found_where_repeats_differ_by_5_percent(
    repeats: int, found: float
) -> None:
    generator = numpy.random.default_rng(3)
    ours, theirs = (generator.lognormal(0, 0.05, (ROUNDS, repeats)) for _ in range(2))
    pairs = zip(ours.tolist(), (theirs / 1.15).tolist(), strict=True)
    assert sum(ratio_interval(above, below).low > 1.0 for above, below in pairs) / ROUNDS >= found


def test_beyond_16_repeats_the_drawn_subsets_give_nearly_the_same_interval_each_time() -> None:
    generator = numpy.random.default_rng(4)
    ours, theirs = (generator.lognormal(0, 0.1, 17).tolist() for _ in range(2))
    interval = ratio_interval(ours, theirs)
    assert ratio_interval(ours[::-1], theirs[::-1]) == interval
    assert interval.confidence == pytest.approx(CONFIDENCE, abs=1e-4)
    # Of normal values the interval is that of Student's t, whose quantile for 16 degrees of freedom is 2.12.
    logarithms = numpy.log(numpy.array(ours) / numpy.array(theirs))
    half = 2.12 * float(logarithms.std(ddof=1)) / math.sqrt(17)
    assert math.log(interval.high / interval.low) / 2 == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize("clients", [2, 4])
def test_of_clients_that_are_equal_the_first_is_no_more_often_ahead_than_the_interval_allows(clients: int) -> None:
    generator = numpy.random.default_rng(5)
    won = 0
    for _ in range(ROUNDS // 4):
        repeats = generator.lognormal(0, 0.1, (clients, 6))
        first, second = numpy.argsort(-numpy.median(repeats, axis=1))[:2]
        won += ratio_interval(repeats[first].tolist(), repeats[second].tolist()).low > 1
    assert won / (ROUNDS // 4) <= 1 - CONFIDENCE
