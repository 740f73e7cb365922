"""Measure what failures of single requests cost a store: the table of docs/retries.md.

    python utils/measure_retries.py                      # every setting, three rounds each, about three minutes
    python utils/measure_retries.py --faults slow_tail   # one

A testbed is started for the runs. ``batch`` keeps two batches of 32 objects in flight and waits for the older one, as
a map data set with a worker that prefetches two batches does; ``stream`` begins 256 reads and waits for them in their
order, as an iterable data set does. Printed are the medians of the rounds, and of all rounds' requests together how
many there were for each object, how many were refused and how many were second requests.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import RetryConfig, StoreConfig, StoreError
from torchbucket.store import ObjectData, Read, RequestRecord, Store, open_store

OBJECT_BYTES = 100 << 10
BATCH = 32
WAYS = {"batch": (BATCH, 64), "stream": (1, 256)}


@dataclass(kw_only=True)
class Outcome:
    """What the rounds of one setting gave."""

    per_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    records: list[RequestRecord] = field(default_factory=list)
    failed: int = 0
    objects: int = 0


def read_all(store: Store, keys: Sequence[str], way: str) -> int:
    """Read every key; return how many reads failed."""
    group, ahead = WAYS[way]
    pending: deque[list[Future[ObjectData]]] = deque()
    failed = 0

    def finish() -> None:
        nonlocal failed
        for future in pending.popleft():
            try:
                assert len(future.result().data) == OBJECT_BYTES
            except StoreError:
                failed += 1

    for start in range(0, len(keys), group):
        pending.append(
            [store.submit_read(Read(key=key, size_bytes=OBJECT_BYTES)) for key in keys[start : start + group]]
        )
        if len(pending) * group >= ahead:
            finish()
    while pending:
        finish()
    return failed


def fill(testbed: RunningTestbed, keys: Sequence[str]) -> None:
    """Write the objects."""
    with closing(open_store("s3://data", StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True))) as store:
        for key in keys:
            store.write(key, bytes(OBJECT_BYTES))


def measure(testbed: RunningTestbed, keys: Sequence[str], way: str, rounds: int, share: float) -> Outcome:
    """Read some keys to warm up, then all of them once a round."""
    config = StoreConfig(
        endpoint=testbed.s3_endpoint, anonymous=True, hedge_share=share, retry=RetryConfig(max_attempts=20)
    )
    outcome = Outcome()
    with closing(open_store("s3://data", config, observer=outcome.records.append)) as store:
        read_all(store, keys[: 2 * BATCH], way)
        for _ in range(rounds):
            outcome.objects += len(keys)
            used = resource.getrusage(resource.RUSAGE_SELF)
            began_s, cpu_s = time.monotonic(), used.ru_utime + used.ru_stime
            outcome.failed += read_all(store, keys, way)
            used = resource.getrusage(resource.RUSAGE_SELF)
            outcome.per_s.append(len(keys) / (time.monotonic() - began_s))
            outcome.cpu_ms.append((used.ru_utime + used.ru_stime - cpu_s) / len(keys) * 1000)
    return outcome


def row(faults: str, network: str, way: str, label: str, outcome: Outcome) -> str:
    """One line of the table."""
    records = outcome.records
    refused = sum(record.status in (429, 503) for record in records)
    hedged = sum(record.hedge for record in records)
    requests = len(records)
    return (
        f"| {faults} | {network} | {way} | {label} | {statistics.median(outcome.per_s):,.0f} "
        f"| {statistics.median(outcome.cpu_ms):.2f} | {requests / outcome.objects:.3f} | {refused / requests:.1%} "
        f"| {hedged / requests:.1%} | {outcome.failed} |"
    )


def main() -> None:
    """Run what the arguments choose and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", nargs="*", default=["none", "errors_1pct", "resets", "slow_tail", "throttling"])
    parser.add_argument("--networks", nargs="*", default=["regional", "throttled"])
    parser.add_argument("--hedge-shares", nargs="*", type=float, default=[0.0, 0.05])
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    keys = [f"train/{number:06}" for number in range(arguments.objects)]
    print(
        "| faults | network | reads | hedge_share | objects/s | CPU ms an object | requests an object | refused "
        "| hedges | failed |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    with launch_testbed(buckets=["data"]) as testbed:
        fill(testbed, keys)
        for network in arguments.networks:
            for faults in arguments.faults if network == "regional" else ["none"]:
                for way in WAYS:
                    testbed.set_network(network)
                    testbed.set_faults(faults)
                    for share in arguments.hedge_shares:
                        outcome = measure(testbed, keys, way, arguments.rounds, share)
                        print(row(faults, network, way, f"{share:g}", outcome), flush=True)


if __name__ == "__main__":
    main()
