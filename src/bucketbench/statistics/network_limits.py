"""What a network model lets through at most: its bandwidth, and what so many requests at once can carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bucketbench.records import Figure
from bucketbench.statistics.figures import MIB
from bucketbench.statistics.summary import Summary

__all__ = ["NO_MODEL", "percent_of_bandwidth", "percent_of_concurrency"]

NO_MODEL: Final = "no network model was set: what a real network allows is not known"
_UNIT: Final = "MiB/s"


def percent_of_bandwidth(summary: Summary, *, figure: str, direction: str) -> Figure:
    """The throughput in percent of the most that the network model lets through, whoever asks and however often.

    That is its bandwidth of all connections together, or, where requests a second are limited, that rate times the
    content of one of the client's requests.

    Args:
        summary: of the client; its parameters have the model.
        figure: name of the throughput.
        direction: ``download`` or ``upload``, which way the content goes.
    """
    found = _throughput(summary, figure)
    if isinstance(found, str):
        return Figure(unit="%", reason=found)
    limits = []
    total = summary.parameters.get("network.total_bytes_per_s")
    if total and summary.parameters.get("network.direction", "both") in ("both", direction):
        limits.append(total / MIB)
    rate, content_mib = summary.parameters.get("network.reads_per_s"), _content_of_request_mib(summary)
    if rate and direction == "download" and content_mib is not None:
        limits.append(rate * content_mib)
    if not limits:
        return Figure(unit="%", reason="the network model limits neither bandwidth nor requests")
    return Figure(unit="%", value=100 * found / min(limits))


def percent_of_concurrency(summary: Summary, *, figure: str) -> Figure:
    """The throughput in percent of what the client's requests can carry that are under way at once.

    A request of some size takes at least the model's median first byte and its size over one connection's bandwidth:
    so many requests at once, on average, as the server counted, carry no more than their content over that time.

    *Source*: Little, "A proof for the queuing formula L = λW" (Operations Research 9, 1961).

    Args:
        summary: of the client; its parameters have the model.
        figure: name of the throughput.
    """
    found = _throughput(summary, figure)
    if isinstance(found, str):
        return Figure(unit="%", reason=found)
    in_flight, content_mib = _median(summary, "requests_in_flight"), _content_of_request_mib(summary)
    if in_flight is None or content_mib is None:
        return Figure(unit="%", reason="how much a request brings, and how many are under way, was not counted")
    least_s = _least_request_s(summary.parameters, content_mib)
    if least_s <= 0:
        return Figure(unit="%", reason="the network model has requests take no time")
    return Figure(unit="%", value=100 * found / (in_flight * content_mib / least_s))


def _least_request_s(parameters: Mapping[str, Any], content_mib: float) -> float:
    per_connection = parameters.get("network.connection_bytes_per_s")
    carried_s = content_mib * MIB / per_connection if per_connection else 0.0
    return float(parameters.get("network.first_byte_s") or 0.0) + carried_s


def _throughput(summary: Summary, figure: str) -> float | str:
    """The client's throughput in MiB/s, or why it cannot be put against a network model."""
    if "network.first_byte_s" not in summary.parameters:
        return NO_MODEL
    if _median(summary, "server_requests") == 0:
        return "it asked nothing of the network"
    measured = summary.figures[figure]
    if measured.unit != _UNIT:
        return f"{figure} is no throughput in {_UNIT}"
    if measured.median is None:
        return measured.reason or f"there is no {figure}"
    return measured.median


def _content_of_request_mib(summary: Summary) -> float | None:
    content_mib, requests = _median(summary, "content_mib"), _median(summary, "server_requests")
    return content_mib / requests if content_mib and requests else None


def _median(summary: Summary, name: str) -> float | None:
    figure = summary.figures.get(name)
    return None if figure is None else figure.median
