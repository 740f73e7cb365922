"""Each rule of a valid measurement: what breaks it, what does not, and what leaves it open."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from planted_jobs import SERVER, VERIFICATION, evidence, operation, sample, with_samples

from bucketbench.records import Figure, OperationKind, Phase, State
from bucketbench.statistics import MIB
from bucketbench.statistics.warm_up import MOST_PASSES
from bucketbench.validity import RULES, Evidence, judge, without_outside


def warm_up_passes(seconds: list[float]) -> Evidence:
    found, at_s = evidence(), 0.0
    passes = []
    for took_s in seconds:
        passes.append(operation(OperationKind.EPOCH, at_s, at_s + took_s, phase=Phase.WARMUP, epoch=-1, samples=32))
        at_s += took_s
    return replace(found, operations=[*passes, *found.operations])


OF_VERSION_3: dict[str, Callable[[Any], Any]] = dict.fromkeys(
    ("host_interrupts_s", "harness_cpu_s", "others_cpu_s", "others_are_all"), lambda one: None
)
DISK = {"reads_through": "disk"}
MOUNT = {"reads_through": "mount"}
BREACHES: dict[str, tuple[Evidence, str, State, str]] = {
    "the machine slept for a minute": (
        with_samples(evidence(), wall_clock_s=lambda one: 1.8e9 + one.at_s + (60 if one.at_s > 10.5 else 0)),
        "clock_jump", State.INVALID, "moved by 60.00 s against the monotonic clock while it was measured .limit 0.1 s.",
    ),
    "the clock was set back": (
        with_samples(evidence(), wall_clock_s=lambda one: 1.8e9 + one.at_s - (0.2 if one.at_s > 11.5 else 0)),
        "clock_jump", State.INVALID, "moved by 0.20 s",
    ),
    "other guests had the processors": (
        with_samples(evidence(), host_steal_s=lambda one: one.at_s / 5),
        "steal", State.DOUBTFUL, r"gave 10% of the processors' time to other guests .steal, limit 2%",
    ),
    "a container's limit": (
        with_samples(
            evidence(), quota_periods=lambda one: round(10 * one.at_s),
            quota_throttled_periods=lambda one: round(4 * one.at_s),
        ),
        "cpu_quota", State.DOUBTFUL, "stopped the job in 40% of its periods .limit 5%.: give it more processors",
    ),
    "other processes compute": (
        with_samples(
            evidence(), host_busy_s=lambda one: 2 * one.at_s,
            others_cpu_s=lambda one: {"firefox": one.at_s / 2, "make": one.at_s / 4, "sh": one.at_s / 8, "cron": 0.0},
        ),
        "other_load", State.DOUBTFUL,
        r"other processes used 44% of the processors' time .limit 10%., of which firefox 25%, make 12%, sh 6%: measure",
    ),
    "processes beside the container compute": (
        with_samples(
            evidence(), host_busy_s=lambda one: 2 * one.at_s, others_cpu_s=lambda one: {"cron": one.at_s / 4},
            others_are_all=lambda one: False,
        ),
        "other_load", State.DOUBTFUL,
        r"used 50% of .*, of which cron 12%, 38% by processes that cannot be seen from here: measure",
    ),
    "another process computes, in records of a version that named none": (
        with_samples(evidence(), **OF_VERSION_3, host_busy_s=lambda one: 2 * one.at_s),
        "other_load", State.DOUBTFUL, r"other processes used 50% of the processors' time .limit 10%.: measure",
    ),
    "nothing was compared but sizes": (
        evidence(verification=VERIFICATION | {"checked_by_size": 320}),
        "unverified", State.DOUBTFUL, r"nothing .* was compared with the content .* \(limit 1\), key and size of 320",
    ),
    "nothing was compared at all": (
        evidence(verification={"checked": 0}), "unverified", State.DOUBTFUL, r"nothing that arrived .* \(limit 1\)$",
    ),
    "a warning": (
        evidence(server=replace(SERVER, warnings=1, lost_s=1.0)),
        "network_model", State.DOUBTFUL, r"were to take 3.00 s took 4.00 s, 25% of it lost .* .invalid above 50%",
    ),
    "warnings all the time": (
        evidence(server=replace(SERVER, warnings=1, lost_s=5.0)),
        "network_model", State.INVALID, "62% of it lost to the host",
    ),
    "warnings of a version that did not count their time": (
        evidence(server=replace(SERVER, warnings=3, lost_s=None)),
        "network_model", State.DOUBTFUL, "warned 3 times",
    ),
    "a testbed that computes all the time": (
        evidence(server=replace(SERVER, processor_s=1.9)),
        "server_saturated", State.DOUBTFUL, r"used 95% of a processor .limit 90%",
    ),
    "files that memory holds": (
        with_samples(evidence(details=DISK), storage_read_bytes=lambda one: 0),
        "page_cache", State.INVALID, "100% of the 200 MiB .* from a storage device .limit 10%",
    ),
    "a mounted bucket whose files memory holds": (
        evidence(details=MOUNT, server=replace(SERVER, bytes_out=50 * MIB)),
        "page_cache", State.INVALID, "75% of the 200 MiB .* from the network",
    ),
    "a mounted bucket of a service that tells nothing": (
        with_samples(evidence(details=MOUNT, server=None), network_received_bytes=lambda one: 0),
        "page_cache", State.INVALID, "100% of the 200 MiB .* from the network",
    ),
    "files that memory may hold": (
        with_samples(evidence(details=DISK), storage_read_bytes=lambda one: None),
        "page_cache", State.DOUBTFUL, "200 MiB that a machine read fit its memory of 8,192 MiB",
    ),
    "a client that says so": (
        evidence(details={"fallback": "the fast way needs another libc"}),
        "other_path", State.INVALID, "fell back to another path: the fast way needs another libc",
    ),
    "a composing client that composes nothing": (
        evidence(details={"expects": "compose"}), "other_path", State.INVALID, "asked for no composition",
    ),
    "a warm-up that ends too early": (
        warm_up_passes([2.0 * 0.8**number for number in range(MOST_PASSES)]),
        "warm_up", State.DOUBTFUL, "after 10 warm-up passes .limit 10.",
    ),
}  # fmt: skip


def test_a_quiet_machine_breaks_no_rule() -> None:
    found = judge(evidence())
    assert (found.state, found.marks, found.unchecked) == (State.VALID, (), {})


@pytest.mark.parametrize("planted", BREACHES.values(), ids=BREACHES)
def test_a_breach_is_marked_with_its_reason_and_limit(planted: tuple[Evidence, str, State, str]) -> None:
    found, rule, state, reason = planted
    judged = judge(found)
    (mark,) = judged.marks
    assert (mark.rule, mark.state, judged.state) == (rule, state, state)
    assert re.search(reason, mark.reason), mark.reason


def test_every_rule_has_a_breach_here() -> None:
    assert {rule for _, rule, _, _ in BREACHES.values()} == RULES.keys()


@pytest.mark.parametrize(
    "found",
    [
        with_samples(evidence(), wall_clock_s=lambda one: 1.8e9 + one.at_s + (60 if one.at_s < 9.5 else 0)),
        evidence(details=DISK),
        evidence(details={"expects": "compose"}, server=replace(SERVER, requests_by_name={"compose_object": 3})),
        warm_up_passes([2.0] + [1.0] * (MOST_PASSES - 1)),
        warm_up_passes([3.0]),
    ],
    ids=["a clock set before the job", "a disk that is read", "composed", "a warm client", "one pass"],
)
def test_what_is_within_the_limits_is_valid(found: Evidence) -> None:
    assert judge(found).state is State.VALID


def test_what_the_harness_uses_and_packets_over_loopback_are_nobodys_load() -> None:
    own = {"host_busy_s": lambda one: 1.5 * one.at_s, "host_interrupts_s": lambda one: one.at_s / 4}
    quiet = with_samples(evidence(), **own, harness_cpu_s=lambda one: 0.75 * one.at_s, others_cpu_s=lambda one: None)
    assert judge(quiet).state is State.VALID
    noisy_ticks = with_samples(evidence(), host_busy_s=lambda one: 1.5 * one.at_s)
    assert judge(noisy_ticks).state is State.VALID, "what processes tell is exact, ticks are not"
    elsewhere = with_samples(evidence(), others_cpu_s=lambda one: {"make": 14 * one.at_s})
    assert judge(elsewhere).state is State.VALID, "on processors that the job may not use"
    between = replace(
        quiet, usage=[replace(one, others_cpu_s={} if one.at_s in (10, 12) else None) for one in quiet.usage]
    )
    assert judge(between).state is State.VALID, "samples between the edges do not have it"


def test_each_machine_is_judged_and_the_worst_counts() -> None:
    quiet = [sample(at_s) for at_s in (9.0, 10.0, 12.0, 13.0)]
    busy = [
        sample(at_s, rank=1, host_steal_s=at_s / 5, host_busy_s=2 * at_s, others_cpu_s={"make": at_s})
        for at_s in (9.0, 10.0, 12.0, 13.0)
    ]
    untold = [replace(one, rank=1, host_steal_s=None, host_busy_s=None, wall_clock_s=None) for one in quiet]
    rules = ["steal", "other_load"]
    assert [mark.rule for mark in judge(evidence(usage=[*quiet, *busy], nodes=2)).marks] == rules
    swapped = [*(replace(one, rank=0) for one in busy), *untold]
    found = judge(evidence(usage=swapped, nodes=2))
    assert [mark.rule for mark in found.marks] == rules, "though one machine does not tell"
    assert judge(evidence(usage=[*quiet, *untold], nodes=2)).unchecked.keys() == {"clock_jump", *rules}


def test_the_time_of_several_ranks_is_the_jobs_own() -> None:
    ranks = [
        sample(at_s, rank=rank, host_busy_s=2 * at_s, cpu_s=at_s, harness_cpu_s=0.0, others_cpu_s=None)
        for at_s in (9, 10, 12, 13)
        for rank in (0, 1)
    ]
    busy = evidence(usage=ranks)
    assert judge(busy).state is State.VALID, "two ranks on one machine use both processors"
    assert [mark.rule for mark in judge(replace(busy, nodes=2)).marks] == ["other_load"], "on two, each uses one"


def test_what_cannot_be_told_is_said_and_no_rule_is_taken_for_kept() -> None:
    bare = with_samples(
        evidence(server=None),
        **dict.fromkeys(("wall_clock_s", "host_busy_s", "host_steal_s", "host_passed_s", "quota_periods"), none),
    )
    judged = judge(bare)
    assert judged.state is State.VALID
    assert judged.unchecked == {
        "clock_jump": "the time of day was not recorded beside the monotonic clock",
        "network_model": "the server tells nothing of itself: it is not the testbed",
        "server_saturated": "the server tells nothing of itself: it is not the testbed",
        "steal": "the host's processor times could not be read",
        "other_load": "the host's processor times could not be read",
        "cpu_quota": "the system does not tell of quotas",
    }
    assert judge(replace(bare, operations=[])).unchecked["clock_jump"] == "nothing was measured to its end"


def none(_: Any) -> None:
    return None


def test_a_load_is_judged_by_its_own_time_and_not_by_that_of_the_save() -> None:
    operations = [
        operation(OperationKind.SAVE, 5.0, 9.0, samples=1, content_bytes=200 * MIB),
        operation(OperationKind.LOAD, 10.0, 12.0, samples=1, content_bytes=200 * MIB),
    ]
    usage = [sample(at_s) for at_s in (4.9, 5.0, 9.0, 10.0, 12.0)]
    server = replace(SERVER, processor_s=3.0)
    read: Callable[[Any], int] = lambda one: 400 * MIB if one.at_s >= 9 else 0  # noqa: E731 - of the save's time alone
    found = with_samples(
        evidence(operations=operations, usage=usage, details=DISK, server=server), storage_read_bytes=read
    )
    assert [mark.rule for mark in judge(found).marks] == ["page_cache"]
    assert judge(evidence(operations=operations, usage=usage, details=DISK, server=server)).state is State.VALID


def test_files_that_memory_may_hold_are_those_that_were_read_and_each_machines_own() -> None:
    operations = [
        operation(OperationKind.SAVE, 5.0, 9.0, samples=1, content_bytes=200 * MIB),
        operation(OperationKind.LOAD, 10.0, 12.0, samples=1, content_bytes=200 * MIB),
    ]
    usage = [sample(at_s, storage_read_bytes=None) for at_s in (4.9, 9.5, 12.0)]
    found = evidence(operations=operations, usage=usage, details=DISK, memory_bytes=300 * MIB)
    (mark,) = judge(found).marks
    assert "the 200 MiB that a machine read fit its memory of 300 MiB" in mark.reason, "what was saved was not read"
    half = replace(found, nodes=2, memory_bytes=150 * MIB, usage=[*usage, *(replace(one, rank=1) for one in usage)])
    assert [mark.rule for mark in judge(half).marks] == ["page_cache"]
    assert judge(replace(half, memory_bytes=50 * MIB)).unchecked.keys() == {"page_cache"}


def test_what_another_process_uses_for_the_client_is_no_figure_of_it() -> None:
    figures = {"cpu_s": Figure(unit="s", value=1.0), "throughput_mibs": Figure(unit="MiB/s", value=100.0)}
    told = without_outside(figures, MOUNT)
    assert told["throughput_mibs"].value == 100.0
    assert told["cpu_s"].value is None
    assert "serves the mounted bucket" in str(told["cpu_s"].reason)
    assert without_outside(figures, DISK) == figures
