"""The figures of the listing scenario, from records that are small enough to reckon by hand."""

from __future__ import annotations

import pytest
from statistics_records import operation, usage

from bucketbench.records import Figure, Operation, OperationKind, Phase
from bucketbench.scenarios.listing.figures import FEWEST_NAMES_FOR_MEMORY, FIGURES
from bucketbench.statistics import MIB, ServerCounts

MANY = FEWEST_NAMES_FOR_MEMORY


def listing(epoch: int, started_s: float, ended_s: float, *, names: int = MANY, wrong: int = 0) -> list[Operation]:
    place = {"epoch": epoch, "worker": -1}
    return [
        operation(OperationKind.WAIT, started_s, started_s + 0.25 * (epoch + 1), **place),
        operation(OperationKind.FETCH, started_s, ended_s, samples=names, errors=wrong, **place),
        operation(OperationKind.EPOCH, started_s, ended_s, **place),
    ]


def values(figures: dict[str, Figure]) -> dict[str, float]:
    return {name: figure.value for name, figure in figures.items() if figure.value is not None}


def test_figures_of_two_listings() -> None:
    built = operation(OperationKind.INDEX, 0.0, 9.0, phase=Phase.WARMUP, epoch=-1)
    samples = [
        usage(-0.1, 0.5, rss_mib=80),
        usage(9.9, 1.0, rss_mib=100), usage(11.0, 1.5, rss_mib=150), usage(12.1, 2.0, rss_mib=140),
        usage(20.0, 7.0, rss_mib=900), usage(24.0, 9.0, rss_mib=400),
    ]  # fmt: skip
    server = ServerCounts(requests=110, bytes_out=3 * MIB, faults=0, warnings=0, listings=100, requests_s=12)
    found = values(FIGURES.of_job([built, *listing(0, 10, 12), *listing(1, 20, 24)], samples, server=server))
    expected = {
        "list_s": 3.0, "names_per_s": MANY / 3, "time_to_first_name_s": 0.375, "listings": 2, "names": 2 * MANY,
        "errors": 0, "wall_s": 6.0, "cpu_s": 3.0, "cpu_us_per_name": 3e6 / (2 * MANY), "peak_rss_mib": 900,
        "added_memory_mib": 820, "requests_in_flight": 2,
        "memory_bytes_per_name": 50 * MIB / MANY, "requests_per_listing": 55, "pages_per_listing": 50,
        "server_requests": 110, "server_bytes_out_mib": 3, "server_faults": 0, "server_warnings": 0,
    }  # fmt: skip
    assert found == pytest.approx(expected)


def test_the_order_of_records_does_not_matter() -> None:
    operations = [*listing(0, 10, 12), *listing(1, 20, 24.1), *listing(2, 30, 30.7)]
    samples = [usage(at_s, at_s / 3) for at_s in (9.0, 15.0, 25.0, 31.0)]
    assert FIGURES.of_job(operations, samples) == FIGURES.of_job(operations[::-1], samples[::-1])


def test_wrong_names_count_as_errors_and_for_no_speed() -> None:
    found = values(FIGURES.of_job(listing(0, 0, 2, names=90, wrong=10), []))
    assert (found["names_per_s"], found["names"], found["errors"]) == (45, 90, 10)


def test_what_was_not_measured_has_its_reason() -> None:
    empty = FIGURES.of_job([], [])
    assert all(figure.value is None and figure.reason for figure in empty.values())
    few = FIGURES.of_job(listing(0, 0, 2, names=10), [usage(0, 0), usage(2, 1)])
    assert "10 were listed" in str(few["memory_bytes_per_name"].reason)
    assert few["requests_per_listing"].reason == "the server's counters are known only for the testbed"
    nothing = FIGURES.of_job(listing(0, 0, 2, names=0), [usage(0, 0), usage(2, 1)])
    assert nothing["names_per_s"].reason == nothing["cpu_us_per_name"].reason == "no name was listed as it should be"


def test_server_counts_of_an_older_version_have_no_pages() -> None:
    figures = FIGURES.of_job(listing(0, 0, 2), [], server=ServerCounts(requests=1, bytes_out=1))
    assert figures["requests_per_listing"].value == 1
    assert "did not count" in str(figures["pages_per_listing"].reason)


def test_memory_that_shrinks_is_no_memory() -> None:
    figures = FIGURES.of_job(listing(0, 1, 2), [usage(0.5, 0, rss_mib=100), usage(2.5, 1, rss_mib=90)])
    assert figures["memory_bytes_per_name"].value == 0
