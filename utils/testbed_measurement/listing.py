"""How long it takes to list many names, and what they take in memory."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psutil

from testbed_measurement.many_names import BUCKET
from testbed_measurement.tables import Table, thousands

_PAGE_NAMES = 1000
_S3_TOKEN = re.compile(rb"<NextContinuationToken>([^<]+)</NextContinuationToken>")


def listing_table(sizes: tuple[int, ...]) -> Table:
    """Lists buckets of these numbers of objects, page by page, by S3 and by the JSON API of GCS."""
    table = Table(
        title="Listing",
        text=f"Objects of one byte with names of 28 bytes, in memory; pages of {_PAGE_NAMES:,} names, one after the"
        " other, by http.client. Bytes an object are the server's growth in resident memory: content, name, metadata"
        " and index together.",
        columns=(
            "objects",
            "bytes an object",
            "API",
            "s for all names",
            "ms a page, mean",
            "slowest",
            "server CPU ms a page",
            "resident MiB after",
        ),
    )
    for objects in sizes:
        _measure(table, objects)
    return table


def _measure(table: Table, objects: int) -> None:
    command = [sys.executable, "-m", "testbed_measurement.many_names", str(objects)]
    here = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the testbed with {objects} objects ended with status {process.wait()}")
            told = json.loads(line)
            server = psutil.Process(told["pid"])
            pages: tuple[tuple[str, Callable[[], Iterator[tuple[float, int]]]], ...] = (
                ("S3", lambda: _s3_pages(told["s3_port"])),
                ("GCS JSON", lambda: _gcs_pages(told["gcs_port"])),
            )
            for api, listed in pages:
                before_s, begun_s = _cpu_s(server), time.perf_counter()
                found = list(listed())
                elapsed_s, cpu_s = time.perf_counter() - begun_s, _cpu_s(server) - before_s
                if sum(names for _, names in found) != objects:
                    raise RuntimeError(f"{api} listed {sum(names for _, names in found)} of {objects} names")
                taken_s = [page_s for page_s, _ in found]
                table.add(
                    thousands(objects),
                    thousands(told["added_bytes"] / objects),
                    api,
                    f"{elapsed_s:.1f}",
                    f"{1e3 * sum(taken_s) / len(taken_s):.1f}",
                    f"{1e3 * max(taken_s):.1f}",
                    f"{1e3 * cpu_s / len(taken_s):.1f}",
                    thousands(server.memory_info().rss / (1 << 20)),
                )
        finally:
            process.terminate()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _s3_pages(port: int) -> Iterator[tuple[float, int]]:
    """Yields the seconds and the names of each page."""
    token: str | None = ""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while token is not None:
        query = f"list-type=2&max-keys={_PAGE_NAMES}" + (
            f"&continuation-token={quote(token, safe='')}" if token else ""
        )
        elapsed_s, body = _get(connection, f"/{BUCKET}?{query}")
        yield elapsed_s, body.count(b"<Key>")
        found = _S3_TOKEN.search(body)
        token = None if found is None else found[1].decode()


def _gcs_pages(port: int) -> Iterator[tuple[float, int]]:
    token: str | None = ""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while token is not None:
        query = f"maxResults={_PAGE_NAMES}" + (f"&pageToken={quote(token, safe='')}" if token else "")
        elapsed_s, body = _get(connection, f"/storage/v1/b/{BUCKET}/o?{query}")
        page = json.loads(body)
        yield elapsed_s, len(page.get("items", ()))
        token = page.get("nextPageToken")


def _get(connection: http.client.HTTPConnection, target: str) -> tuple[float, bytes]:
    begun_s = time.perf_counter()
    connection.request("GET", target)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"GET {target} was answered {answer.status}: {body[:500]!r}")
    return time.perf_counter() - begun_s, body
