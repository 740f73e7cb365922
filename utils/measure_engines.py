"""Measure what could carry the store: CPU time and throughput of four engines against one bare server.

The engines do the same work in one process of their own, one after another, in turn for each repeat: small objects with
64 requests in flight, one large object in 8 MiB ranges with 16, and one large write in 8 MiB parts with 8. The server
answers any S3 path after 20 ms and sends or takes large bodies at 100 MiB/s a connection; it is the same for all, so
the ratios are the point.

    python utils/measure_engines.py --repeats 5 --output docs/results/engines

writes ``engines.json`` and ``engines.md``. CPU time is the client process's own, user and system.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from engine_measurement.bare_server import server
from engine_measurement.engines import ENGINES
from engine_measurement.tables import table
from engine_measurement.work import LARGE_BYTES


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of wall and CPU time that the work takes."""
    before_cpu_s, before_s = cpu_s(), time.perf_counter()
    work()
    return time.perf_counter() - before_s, cpu_s() - before_cpu_s


def measure(tls: bool, repeats: int, directory: Path) -> list[dict[str, Any]]:
    """Run every engine on every work, in turn, and return each run."""
    memory = bytearray(LARGE_BYTES)
    target = memoryview(memory)
    target[::4096] = b"\1" * (LARGE_BYTES // 4096)  # so that no engine pays for the kernel's fresh pages
    runs = []
    with server(tls, directory) as (endpoint, certificate):
        engines = [kind(endpoint, certificate) for kind in ENGINES]
        works: dict[str, Callable[[Any], None]] = {
            "small reads": lambda engine: engine.small(),
            "large read": lambda engine: engine.large(target),
            "large write": lambda engine: engine.write(target),
        }
        for repeat in range(-1, repeats):  # the first is a warm-up
            for work, function in works.items():
                for engine in engines:
                    wall_s, used_s = measured(lambda function=function, engine=engine: function(engine))
                    if repeat >= 0:
                        runs.append(
                            {"engine": engine.name, "tls": tls, "work": work, "wall_s": wall_s, "cpu_s": used_s}
                        )
                    print(
                        f"{'TLS' if tls else 'HTTP'} {work}, {engine.name}: {wall_s:.2f} s, CPU {used_s:.2f} s",
                        flush=True,
                    )
        for engine in engines:
            engine.close()
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write OUTPUT.json and OUTPUT.md")
    arguments = parser.parse_args()
    os.environ.update(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret", AWS_EC2_METADATA_DISABLED="true")
    with tempfile.TemporaryDirectory() as directory:
        runs = [run for tls in (False, True) for run in measure(tls, arguments.repeats, Path(directory))]
    import pycurl

    command = f"python utils/measure_engines.py --repeats {arguments.repeats}"
    host = (
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, "
        f"{pycurl.version.split(' OpenSSL')[0]}, obstore {version('obstore')}."
    )
    text = table(runs, command, host)
    print(text)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.with_suffix(".md").write_text(text)
        arguments.output.with_suffix(".json").write_text(
            json.dumps({"command": command, "host": host, "runs": runs}, indent=1)
        )


if __name__ == "__main__":
    main()
