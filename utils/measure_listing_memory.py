"""Measure what a listing of many objects takes: the table of docs/listing.md.

    python utils/measure_listing_memory.py                  # a million names on both providers, about a minute
    python utils/measure_listing_memory.py --count 50000

A testbed is given the names and serves them without latency. The growth of the process is that of its resident memory
while it lists, at most; it has asked for one page before, so that libraries are loaded.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.listing import list_objects
from torchbucket.store import open_store

BUCKET = "names"
_WARM_UP_REQUESTS = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


class Peak:
    """The most resident memory that was seen while it watched."""

    def __init__(self) -> None:
        self.most_bytes = resident_bytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            self.most_bytes = max(self.most_bytes, resident_bytes())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.most_bytes = max(self.most_bytes, resident_bytes())


def measure(uri: str, endpoint: str, count: int, *, versions: bool) -> tuple[float, float, float]:
    """Bytes held and the most grown by, and CPU microseconds, all for each object; in a process of its own."""
    store = open_store(uri, StoreConfig(endpoint=endpoint, anonymous=True))
    store.submit_list_page("train/").result()
    before_bytes, before_cpu_s = resident_bytes(), time.process_time()
    with Peak() as peak:
        listing = list_objects(store, "train/", versions=versions)
    cpu_us = (time.process_time() - before_cpu_s) * 1e6
    assert len(listing) == count
    return listing.nbytes / count, (peak.most_bytes - before_bytes) / count, cpu_us / count


def row(testbed: RunningTestbed, scheme: str, count: int, *, versions: bool) -> str:
    """One row of the table."""
    endpoint = testbed.s3_endpoint if scheme == "s3" else testbed.gcs_endpoint
    testbed.reset_counts()
    # Memory that an earlier listing has freed would serve this one, so each has a fresh process.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        work = process.submit(measure, f"{scheme}://{BUCKET}", endpoint, count, versions=versions)
        held, grown, cpu_us = work.result()
    requests = sum(testbed.counts()["requests"].values()) - _WARM_UP_REQUESTS
    name = {"s3": "S3", "gs": "Cloud Storage"}[scheme] + (", with versions" if versions else "")
    return f"| {name} | {held:.0f} | {grown:.0f} | {requests:,} | {cpu_us:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="how many names; default 1,000,000")
    count = parser.parse_args().count
    print("| | held, bytes an object | most while listing | requests | CPU of the client, µs a name |")
    print("|---|---|---|---|---|")
    with launch_testbed(buckets=[BUCKET]) as testbed:
        testbed.put_objects(BUCKET, ((f"train/class-{i % 1000:03}/{i:012}.jpg", 0) for i in range(count)))
        for scheme in ("s3", "gs"):
            for versions in (False, True):
                print(row(testbed, scheme, count, versions=versions), flush=True)


if __name__ == "__main__":
    main()
