"""Measures what the testbed carries: 100 KiB GETs a second and MiB/s of large GETs, with obstore as the client.

Client and server share this machine's cores, so the CPU seconds that each of them took say which one was the limit.
The network model is off unless `--network` says otherwise.

    python utils/measure_testbed.py [--seconds 3] [--concurrency 64] [--network regional] [--tls]
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import count

import obstore
import psutil
from obstore.store import S3Store

from bucketbench.testbed import RunningTestbed, launch_testbed

SMALL_BYTES, SMALL_OBJECTS = 100 << 10, 500
LARGE_BYTES, LARGE_OBJECTS, RANGE_BYTES = 64 << 20, 4, 8 << 20


def own_cpu_s() -> float:
    """Returns the CPU seconds of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def server_cpu_s(testbed: RunningTestbed) -> float:
    """Returns the CPU seconds of the testbed's process."""
    times = psutil.Process(testbed.pid).cpu_times()
    return times.user + times.system


def run_threads(read: Callable[[int], int], seconds: float, concurrency: int) -> tuple[int, int]:
    """Reads in threads until the time is over; returns requests and bytes."""
    numbers, stop_s = count(), time.perf_counter() + seconds

    def work(_: int) -> tuple[int, int]:
        requests = received_bytes = 0
        while time.perf_counter() < stop_s:
            received_bytes += read(next(numbers))
            requests += 1
        return requests, received_bytes

    with ThreadPoolExecutor(concurrency) as pool:
        totals = list(pool.map(work, range(concurrency)))
    return sum(total[0] for total in totals), sum(total[1] for total in totals)


async def run_async(store: S3Store, key: Callable[[int], str], seconds: float, concurrency: int) -> tuple[int, int]:
    """Reads whole objects in asyncio tasks until the time is over; returns requests and bytes."""
    numbers, stop_s, totals = count(), time.perf_counter() + seconds, [0, 0]

    async def work() -> None:
        while time.perf_counter() < stop_s:
            answer = await obstore.get_async(store, key(next(numbers)))
            received_bytes = len(await answer.bytes_async())
            totals[0] += 1
            totals[1] += received_bytes

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return totals[0], totals[1]


def measured(name: str, testbed: RunningTestbed, run: Callable[[], tuple[int, int]]) -> dict[str, object]:
    """Runs one workload and returns its figures."""
    own_s, server_s, start_s = own_cpu_s(), server_cpu_s(testbed), time.perf_counter()
    requests, received_bytes = run()
    elapsed_s = time.perf_counter() - start_s
    own_s, server_s = own_cpu_s() - own_s, server_cpu_s(testbed) - server_s
    return {
        "workload": name,
        "requests_per_s": round(requests / elapsed_s),
        "mib_per_s": round(received_bytes / elapsed_s / (1 << 20)),
        "client_cpu_ms_per_request": round(1000 * own_s / requests, 3),
        "server_cpu_ms_per_request": round(1000 * server_s / requests, 3),
        "client_cores": round(own_s / elapsed_s, 2),
        "server_cores": round(server_s / elapsed_s, 2),
    }


def main() -> None:
    """Measures and prints one line of JSON for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each workload")
    parser.add_argument("--concurrency", type=int, default=64, help="small reads at the same time")
    parser.add_argument("--large-concurrency", type=int, default=4, help="large reads at the same time")
    parser.add_argument("--network", default="none")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--directory", help="measure the directory holder, in this directory")
    options = parser.parse_args()
    print(
        json.dumps(
            {
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                **{name: version(name) for name in ("obstore", "uvicorn", "uvloop", "httptools")},
            }
        )
    )
    with launch_testbed(buckets=["measure"], network="none", tls=options.tls, directory=options.directory) as testbed:
        if testbed.ca_certificate is not None:
            os.environ["SSL_CERT_FILE"] = str(testbed.ca_certificate)
        store = S3Store(
            "measure",
            endpoint=testbed.s3_endpoint,
            region="us-east-1",
            skip_signature=True,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
        for number in range(SMALL_OBJECTS):
            obstore.put(store, f"small/{number}", os.urandom(SMALL_BYTES))
        for number in range(LARGE_OBJECTS):
            obstore.put(store, f"large/{number}", os.urandom(LARGE_BYTES))
        testbed.set_network(options.network)

        def small(number: int) -> int:
            return len(obstore.get(store, f"small/{number % SMALL_OBJECTS}").bytes())

        def large(number: int) -> int:
            answer = obstore.get(store, f"large/{number % LARGE_OBJECTS}")
            return sum(len(piece) for piece in answer.stream(min_chunk_size=1 << 20))

        def ranged(number: int) -> int:
            start = number % (LARGE_BYTES // RANGE_BYTES) * RANGE_BYTES
            return len(obstore.get_range(store, f"large/{number % LARGE_OBJECTS}", start=start, length=RANGE_BYTES))

        seconds, threads, few = options.seconds, options.concurrency, options.large_concurrency
        workloads: list[tuple[str, Callable[[], tuple[int, int]]]] = [
            (f"100 KiB GETs, {threads} threads", lambda: run_threads(small, seconds, threads)),
            ("100 KiB GETs, 8 threads", lambda: run_threads(small, seconds, 8)),
            (
                f"100 KiB GETs, asyncio, {threads} at once",
                lambda: asyncio.run(run_async(store, lambda n: f"small/{n % SMALL_OBJECTS}", seconds, threads)),
            ),
            (f"64 MiB GETs, streamed, {few} threads", lambda: run_threads(large, seconds, few)),
            (f"8 MiB ranged GETs, {few} threads", lambda: run_threads(ranged, seconds, few)),
        ]
        for name, run in workloads:
            print(json.dumps(measured(name, testbed, run)), flush=True)


if __name__ == "__main__":
    main()
