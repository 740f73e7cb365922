"""When a client is warm, and from how many operations on a percentile is told."""

from __future__ import annotations

import pytest

from bucketbench.statistics import least_operations, percentile_figure
from bucketbench.statistics.warm_up import is_warm


@pytest.mark.parametrize(
    ("rates", "warm"),
    [
        ([], False),
        ([100.0], False),
        ([100.0, 101.0], False),
        ([100.0, 101.0, 99.0], True),
        ([50.0, 100.0, 109.0], False),
        ([50.0, 100.0, 109.0, 108.0], True),
        ([100.0, 120.0, 150.0, 200.0], False),
        ([100.0, 90.0, 115.0, 100.0], False),
        ([100.0, 60.0, 50.0], True),
    ],
)
def test_a_client_is_warm_when_two_passes_brought_no_progress(rates: list[float], *, warm: bool) -> None:
    assert is_warm(rates) is warm


def test_a_percentile_has_at_least_one_operation_beyond_it() -> None:
    assert [least_operations(percent) for percent in (50, 90, 95, 99, 99.9)] == [2, 10, 20, 100, 1000]
    assert percentile_figure([1.0] * 19, 95) == "a 95th percentile needs 20 operations, 19 were measured"
    assert percentile_figure([1.0] * 20, 95) == 1.0
    assert percentile_figure([1.0], 50) == "a median needs 2 operations, 1 were measured"
