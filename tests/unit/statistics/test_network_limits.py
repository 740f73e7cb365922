"""A throughput in percent of what the network model lets through, and of what a client's requests can carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from statistics_records import measured_job

from bucketbench.records import Figure
from bucketbench.scenarios.dataset.figures import FIGURES
from bucketbench.statistics import MIB, Summary, summarise
from bucketbench.statistics.network_limits import percent_of_bandwidth, percent_of_concurrency

REGIONAL = {
    "network": "regional", "network.first_byte_s": 0.02, "network.connection_bytes_per_s": 100 * MIB,
    "network.total_bytes_per_s": 800 * MIB, "network.direction": "both", "network.reads_per_s": None,
}  # fmt: skip


def client(
    throughput_mibs: float, *, in_flight: float | None = None, requests: float = 1000, **network: Any
) -> Summary:
    """A client that got 1,000 objects of 100 KiB each, by so many requests."""
    job = measured_job("one", 0, throughput_mibs, parameters=REGIONAL | network)
    figures = {
        **job.figures,
        "content_mib": Figure(unit="MiB", value=1000 * 100 / 1024),
        "server_requests": Figure(unit="requests", value=requests),
        "requests_in_flight": Figure(unit="requests", value=in_flight)
        if in_flight is not None
        else Figure(unit="requests", reason="not counted"),
    }
    (summary,) = summarise([replace(job, figures=figures)], units=FIGURES.units)
    return summary


def bandwidth(summary: Summary, direction: str = "download") -> Figure:
    return percent_of_bandwidth(summary, figure="throughput_mibs", direction=direction)


def test_the_bandwidth_of_all_connections_is_a_limit() -> None:
    assert bandwidth(client(400)).value == pytest.approx(50)
    upload_only = client(400, **{"network.direction": "upload"})
    assert bandwidth(upload_only).reason == "the network model limits neither bandwidth nor requests"
    assert bandwidth(upload_only, "upload").value == pytest.approx(50)


def test_a_rate_of_requests_is_one_where_it_is_less() -> None:
    """550 requests a second of 100 KiB each are 53.7 MiB/s, and of half an object each half of that."""
    assert bandwidth(client(26.855, **{"network.reads_per_s": 550})).value == pytest.approx(50, rel=1e-3)
    halves = client(26.855, requests=2000, **{"network.reads_per_s": 550})
    assert bandwidth(halves).value == pytest.approx(100, rel=1e-3)


def test_requests_under_way_carry_no_more_than_their_content_over_their_least_time() -> None:
    """Each of 100 KiB takes 20 ms and 0.98 ms on its connection, so that 10 at once carry 46.55 MiB/s."""
    found = percent_of_concurrency(client(23.27, in_flight=10), figure="throughput_mibs")
    assert found.value == pytest.approx(50, rel=1e-3)


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        (client(5, requests=0), "it asked nothing of the network"),
        (client(5), "was not counted"),
        (
            client(5, in_flight=1, **{"network.first_byte_s": 0.0, "network.connection_bytes_per_s": None}),
            "has requests take no time",
        ),
    ],
)
def test_without_a_limit_there_is_a_reason(summary: Summary, reason: str) -> None:
    assert reason in str(percent_of_concurrency(summary, figure="throughput_mibs").reason)


def test_of_a_real_network_nothing_is_said() -> None:
    (summary,) = summarise([measured_job("one", 0, 100.0, parameters={"network": None})], units=FIGURES.units)
    assert "no network model was set" in str(bandwidth(summary).reason)
    assert bandwidth(client(5)).value is not None
