"""How long requests take within what a service promises, and what a step waits for."""

from __future__ import annotations

import math

import pytest

from bucketbench.scale.bounds import Surroundings, bounds_of, demand_of, seconds_of
from bucketbench.scale.service import Kind, ServiceLimits, kind_of
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scale.steps import Operation, Step
from buckettestbed.network.model import NetworkModel
from buckettestbed.operations import gcs_json, gcs_xml, s3

MIB = 1 << 20


def limits(*, per_prefix: bool = True, doubling_s: float | None = None) -> ServiceLimits:
    return ServiceLimits(
        name="a service",
        per_s={Kind.READS: 5500.0, Kind.WRITES: 3500.0},
        per_prefix=per_prefix,
        doubling_s=doubling_s,
        as_of="2026-11-29",
        sources=(),
    )


def test_below_the_limit_nothing_is_waited_for() -> None:
    assert limits().least_s(Kind.READS, 1e9, 5500.0, 1) == 0.0


@pytest.mark.parametrize(("prefixes", "seconds"), [(1, 20.0), (4, 5.0)])
def test_above_it_requests_take_what_the_prefixes_allow(prefixes: int, seconds: float) -> None:
    assert limits().least_s(Kind.WRITES, 70_000, 1e6, prefixes) == pytest.approx(seconds)


def test_prefixes_are_of_no_use_where_limits_are_of_a_bucket() -> None:
    assert limits(per_prefix=False).least_s(Kind.WRITES, 70_000, 1e6, 4) == pytest.approx(20.0)


@pytest.mark.parametrize("requests", [1e4, 1e6, 2e7, 4e8])
def test_a_rate_that_doubles_takes_what_small_steps_take(requests: float) -> None:
    asked_per_s, step_s = 60_000.0, 0.5
    done, elapsed_s = 0.0, 0.0
    while done < requests:
        done += step_s * min(asked_per_s, 5500.0 * 2 ** ((elapsed_s + step_s / 2) / 1200.0))
        elapsed_s += step_s
    found = limits(doubling_s=1200.0).least_s(Kind.READS, requests, asked_per_s, 1)
    assert found == pytest.approx(elapsed_s, abs=step_s)


def test_every_operation_of_the_testbed_is_a_read_or_a_write() -> None:
    reads = {name for name in s3.OPERATIONS | gcs_json.OPERATIONS | gcs_xml.OPERATIONS if kind_of(name) is Kind.READS}
    assert {"get_object", "get_object_range", "head_object", "head_bucket", "list_objects_v2", "list_objects"} <= reads
    changing = {"put_object", "upload_part", "create_upload", "complete_upload", "delete_object", "compose_object"}
    assert not changing & reads


AROUND = Surroundings(
    network=NetworkModel(first_byte_s=0.02, connection_bytes_per_s=100.0 * MIB),
    limits=limits(),
    scale=ScaleSettings(
        ranks=(10,),
        ranks_per_host=8,
        host_bytes_per_s=1000.0 * MIB,
        prefixes=4,
        route="same_region",
        shard_size_bytes=256 * MIB,
    ),
)


def a_step(**changes: object) -> Step:
    fields: dict[str, object] = {
        "name": "reading",
        "requests": {"get_object": 1280.0},
        "received_bytes": 1280.0 * 8 * MIB,
        "processes": 10,
        "most_requests": 128,
        "most_bytes": 128 * 8 * MIB,
        "in_flight": 64,
        "is_spread": True,
    }
    return Step(**(fields | changes))  # type: ignore[arg-type]


def test_a_step_takes_the_longest_of_its_bounds() -> None:
    found = bounds_of(a_step(), AROUND)
    # Two rounds of 64, each 20 ms and 8 MiB at 100 MiB/s; eight ranks of a host move 1 GiB each over 1000 MiB/s.
    assert found.carried == pytest.approx(
        {"the connections": 2 * 0.1, "the hosts' links": 8.192, "the accelerators": 0.0}
    )
    assert (found.seconds, found.cause) == (pytest.approx(8.192), "the hosts' links")
    assert found.service == {"the service's reads": 0.0, "the service's writes": 0.0}


def test_the_accelerators_may_need_longer() -> None:
    found = bounds_of(a_step(least_s=60.0), AROUND)
    assert (found.seconds, found.cause) == (60.0, "the accelerators")


@pytest.mark.parametrize(("is_spread", "allowed"), [(True, 22_000.0), (False, 5500.0)])
def test_the_service_binds_where_more_is_asked_than_it_allows(is_spread: bool, allowed: float) -> None:
    step = a_step(requests={"get_object": 1e6}, is_spread=is_spread)
    found = bounds_of(step, AROUND)
    assert (found.seconds, found.cause) == (pytest.approx(1e6 / allowed), "the service's reads")
    demand = demand_of(Operation(name="load", steps=(step,)), AROUND)
    assert (demand.asked_per_s, demand.allowed_per_s) == (pytest.approx(1e6 / 8.192), allowed)
    assert demand.share == pytest.approx(1e6 / 8.192 / allowed)


def test_a_burst_asks_in_a_second_for_no_more_than_it_has() -> None:
    step = Step.of_each("beginning", {"put_object": 1}, processes=2000, in_flight=1)
    demand = demand_of(Operation(name="save", steps=(step,)), AROUND)
    assert (demand.kind, demand.asked_per_s) == (Kind.WRITES, 2000.0)


def test_steps_follow_one_another_and_the_longest_is_the_cause() -> None:
    begin = Step.of_each("beginning", {"put_object": 3}, in_flight=1)
    seconds, cause = seconds_of(Operation(name="load", steps=(begin, a_step())), AROUND)
    assert (seconds, cause) == (pytest.approx(0.06 + 8.192), "the hosts' links")


def test_what_each_does_is_added_up() -> None:
    step = Step.of_each(
        "reading", {"get_object": 2, "head_object": 1}, processes=5, received_bytes=7.0, sent_bytes=1.0, in_flight=4
    )
    usage = Operation(name="load", steps=(step, step)).usage
    assert usage.requests == {"get_object": 20, "head_object": 10}
    assert (usage.received_bytes, usage.sent_bytes) == (70.0, 10.0)
    assert (step.most_requests, step.most_bytes, step.count(Kind.READS)) == (3, 8.0, 15)
    assert math.isclose(step.least_s, 0.0)
