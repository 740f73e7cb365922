"""How long it takes to list many names, and what they take in memory."""

import http.client
import json
import re
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import psutil

from buckettestbed import launch_testbed
from testbed_measurement.tables import Table, thousands

_BUCKET = "names"
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
    with launch_testbed(buckets=[_BUCKET]) as testbed:
        server = psutil.Process(testbed.pid)
        before_bytes = server.memory_info().rss
        testbed.put_objects(_BUCKET, ((_key(number), 1) for number in range(objects)))
        added_bytes = server.memory_info().rss - before_bytes
        for api, pages in (("S3", _s3_pages(testbed.s3_endpoint)), ("GCS JSON", _gcs_pages(testbed.gcs_endpoint))):
            before_s, begun_s = _cpu_s(server), time.perf_counter()
            found = list(pages)
            elapsed_s, cpu_s = time.perf_counter() - begun_s, _cpu_s(server) - before_s
            if sum(names for _, names in found) != objects:
                raise RuntimeError(f"{api} listed {sum(names for _, names in found)} of {objects} names")
            taken_s = [page_s for page_s, _ in found]
            table.add(
                thousands(objects),
                thousands(added_bytes / objects),
                api,
                f"{elapsed_s:.1f}",
                f"{1e3 * sum(taken_s) / len(taken_s):.1f}",
                f"{1e3 * max(taken_s):.1f}",
                f"{1e3 * cpu_s / len(taken_s):.1f}",
                thousands(server.memory_info().rss / (1 << 20)),
            )


def _key(number: int) -> str:
    """Returns the name of an object: 28 bytes, a thousand in each folder."""
    return f"data/{number // 1000:08d}/sample-{number % 1000:07d}"


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _s3_pages(endpoint: str) -> Iterator[tuple[float, int]]:
    """Yields the seconds and the names of each page."""
    token: str | None = ""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    while token is not None:
        query = f"list-type=2&max-keys={_PAGE_NAMES}" + (
            f"&continuation-token={quote(token, safe='')}" if token else ""
        )
        elapsed_s, body = _get(connection, f"/{_BUCKET}?{query}")
        yield elapsed_s, body.count(b"<Key>")
        found = _S3_TOKEN.search(body)
        token = None if found is None else found[1].decode()


def _gcs_pages(endpoint: str) -> Iterator[tuple[float, int]]:
    token: str | None = ""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    while token is not None:
        query = f"maxResults={_PAGE_NAMES}" + (f"&pageToken={quote(token, safe='')}" if token else "")
        elapsed_s, body = _get(connection, f"/storage/v1/b/{_BUCKET}/o?{query}")
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
