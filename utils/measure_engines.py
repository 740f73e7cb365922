"""Measure what could carry the store: CPU time and throughput of four engines against one bare server.

The engines do the same work in one process of their own, one after another, in turn for each repeat: small objects with
64 requests in flight, one large object in 8 MiB ranges with 16, and one large write in 8 MiB parts with 8. The server
answers any S3 path after 20 ms and sends or takes large bodies at 100 MiB/s a connection; it is the same for all, so
the ratios are the point.

    python utils/measure_engines.py --repeats 5 --output docs/results/engines

writes ``engines.json`` and ``engines.md``. CPU time is the client process's own, user and system.

This file is above 400 lines because it starts itself again as the server and as each engine, with nothing beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import platform
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

MIB = 1 << 20
SMALL_BYTES, SMALL_COUNT, SMALL_IN_FLIGHT = 100 << 10, 2000, 64
LARGE_BYTES, PART_BYTES, LARGE_IN_FLIGHT, WRITE_IN_FLIGHT = 256 * MIB, 8 * MIB, 16, 8
FIRST_BYTE_S, CONNECTION_BYTES_PER_S, PIECE = 0.02, 100 * MIB, bytes(256 << 10)


async def application(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Answer like S3 as far as the engines look."""
    if scope["type"] != "http":
        return
    taken = 0
    while True:
        message = await receive()
        taken += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    headers = [(b"etag", b'"tag"'), (b"last-modified", b"Fri, 27 Nov 2026 20:00:00 GMT")]
    if scope["method"] in ("PUT", "POST", "DELETE"):
        body = b""
        if scope["method"] == "POST":
            root = (
                b"InitiateMultipartUploadResult"
                if b"uploads" in scope["query_string"]
                else b"CompleteMultipartUploadResult"
            )
            body = b"<%s><UploadId>u</UploadId><ETag>tag</ETag></%s>" % (root, root)
        await asyncio.sleep(FIRST_BYTE_S + taken / CONNECTION_BYTES_PER_S)
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, _length(len(body))]})
        await send({"type": "http.response.body", "body": body})
        return
    size = LARGE_BYTES if scope["path"].endswith("large") else SMALL_BYTES
    start, stop, status = 0, size, 200
    asked = dict(scope["headers"]).get(b"range")
    if asked is not None:
        first, _, last = asked.removeprefix(b"bytes=").partition(b"-")
        start, stop, status = int(first), min(int(last or size) + 1, size), 206
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, size)))
    await asyncio.sleep(FIRST_BYTE_S)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, _length(stop - start)]})
    began, sent = time.monotonic(), 0
    while sent < stop - start:
        piece = PIECE[: stop - start - sent]
        sent += len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if size == LARGE_BYTES:
            await asyncio.sleep(max(0.0, began + sent / CONNECTION_BYTES_PER_S - time.monotonic()))
    await send({"type": "http.response.body", "body": b""})


def _length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


def serve(descriptor: int, certificate: str, key: str) -> None:
    """Run the server on a socket that the parent has bound."""
    import uvicorn

    files = {"ssl_certfile": certificate, "ssl_keyfile": key} if certificate else {}
    uvicorn.run(
        application,
        fd=descriptor,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="error",
        timeout_keep_alive=3600,  # no engine's connections end while another is measured
        **files,
    )


@contextlib.contextmanager
def server(tls: bool, directory: Path) -> Iterator[tuple[str, str | None]]:
    """Yield endpoint and certificate file of a server in a process of its own."""
    certificate = key = ""
    if tls:
        import trustme

        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        certificate, key = str(directory / "server.pem"), str(directory / "key.pem")
        issued.private_key_pem.write_to_path(key)
        Path(certificate).write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        authority.cert_pem.write_to_path(directory / "ca.pem")
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.set_inheritable(True)
        command = [
            sys.executable,
            __file__,
            "--serve",
            str(listener.fileno()),
            "--certificate",
            certificate,
            "--key",
            key,
        ]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()])
        port = listener.getsockname()[1]
        try:
            yield f"http{'s' * tls}://127.0.0.1:{port}", str(directory / "ca.pem") if tls else None
        finally:
            process.terminate()
            process.wait()


class Engine:
    """Reads and writes the bare server's objects; ``close`` ends threads and connections."""

    name: ClassVar[str]

    def small(self) -> None:
        raise NotImplementedError

    def large(self, target: memoryview) -> None:
        raise NotImplementedError

    def write(self, content: memoryview) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to end."""


class Torchbucket(Engine):
    """The store as users have it: signed, checked, retried."""

    name = "torchbucket"

    def __init__(self, endpoint: str, certificate: str | None) -> None:
        from torchbucket.store import StoreConfig, open_store

        def opened(concurrency: int) -> Any:
            config = StoreConfig(endpoint=endpoint, region="us-east-1", ca_bundle=certificate, concurrency=concurrency)
            return open_store("s3://bucket", config)

        self._small, self._large, self._write = (
            opened(SMALL_IN_FLIGHT),
            opened(LARGE_IN_FLIGHT),
            opened(WRITE_IN_FLIGHT),
        )

    def small(self) -> None:
        futures = [self._small.submit_read(f"small/{n}", size_bytes=SMALL_BYTES) for n in range(SMALL_COUNT)]
        for future in futures:
            assert len(future.result().data) == SMALL_BYTES

    def large(self, target: memoryview) -> None:
        assert len(self._large.submit_read("large", into=target, size_bytes=LARGE_BYTES).result().data) == LARGE_BYTES

    def write(self, content: memoryview) -> None:
        self._write.write("large", content)

    def close(self) -> None:
        for store in (self._small, self._large, self._write):
            store.close()


class Threads(Engine):
    """Blocking requests on a pool of threads, each with a connection; a subclass makes the requests."""

    def __init__(self, endpoint: str, certificate: str | None) -> None:
        self.endpoint, self.certificate = endpoint, certificate
        self.own = threading.local()
        self._pool = ThreadPoolExecutor(SMALL_IN_FLIGHT)

    def get_small(self, number: int) -> int:
        raise NotImplementedError

    def get_range(self, start: int, target: memoryview) -> None:
        raise NotImplementedError

    def put_part(self, number: int, body: memoryview) -> None:
        raise NotImplementedError

    def small(self) -> None:
        assert sum(self._pool.map(self.get_small, range(SMALL_COUNT))) == SMALL_COUNT * SMALL_BYTES

    def large(self, target: memoryview) -> None:
        self._bounded(LARGE_IN_FLIGHT, lambda start: self.get_range(start, target[start : start + PART_BYTES]))

    def write(self, content: memoryview) -> None:
        self._bounded(WRITE_IN_FLIGHT, lambda start: self.put_part(start, content[start : start + PART_BYTES]))

    def _bounded(self, in_flight: int, work: Callable[[int], None]) -> None:
        left, lock = list(range(0, LARGE_BYTES, PART_BYTES)), threading.Lock()

        def run(_: int) -> None:
            while True:
                with lock:
                    if not left:
                        return
                    start = left.pop(0)
                work(start)

        list(self._pool.map(run, range(in_flight)))

    def close(self) -> None:
        self._pool.shutdown()


class PycurlThreads(Threads):
    """libcurl, one easy handle a thread: what the one loop is compared with."""

    name = "pycurl-threads"

    def _handle(self, path: str, write: Callable[[bytes], None], headers: list[str]) -> Any:
        import pycurl

        if not hasattr(self.own, "curl"):
            self.own.curl = pycurl.Curl()
        curl = self.own.curl
        curl.reset()
        for option, value in (
            (pycurl.NOSIGNAL, 1),
            (pycurl.TCP_NODELAY, 1),
            (pycurl.BUFFERSIZE, 512 << 10),
            (pycurl.UPLOAD_BUFFERSIZE, 2 * MIB),
            (pycurl.URL, f"{self.endpoint}/bucket/{path}"),
            (pycurl.WRITEFUNCTION, write),
            (pycurl.HTTPHEADER, [*headers, "Expect:"]),
        ):
            curl.setopt(option, value)
        if self.certificate:
            curl.setopt(pycurl.CAINFO, self.certificate)
        return curl

    def get_small(self, number: int) -> int:
        chunks: list[bytes] = []
        self._handle(f"small/{number}", chunks.append, []).perform()
        return len(b"".join(chunks))

    def get_range(self, start: int, target: memoryview) -> None:
        position = 0

        def store(chunk: bytes) -> None:
            nonlocal position
            target[position : position + len(chunk)] = chunk
            position += len(chunk)

        self._handle("large", store, [f"Range: bytes={start}-{start + len(target) - 1}"]).perform()
        assert position == len(target)

    def put_part(self, number: int, body: memoryview) -> None:
        import pycurl

        position = 0

        def read(most: int) -> memoryview:
            nonlocal position
            piece = body[position : position + most]
            position += len(piece)
            return piece

        curl = self._handle(f"large?partNumber={number}", lambda _: None, [])
        curl.setopt(pycurl.UPLOAD, 1)
        curl.setopt(pycurl.INFILESIZE_LARGE, len(body))
        curl.setopt(pycurl.READFUNCTION, read)
        curl.perform()


class HttpClient(Threads):
    """The standard library's client, bodies received straight into the target."""

    name = "http.client"

    def _connection(self) -> http.client.HTTPConnection:
        if not hasattr(self.own, "connection"):
            host = self.endpoint.partition("://")[2]
            if self.certificate:
                context = ssl.create_default_context(cafile=self.certificate)
                self.own.connection = http.client.HTTPSConnection(host, context=context)
            else:
                self.own.connection = http.client.HTTPConnection(host)
        return self.own.connection  # type: ignore[no-any-return]  # a thread's own attribute

    def get_small(self, number: int) -> int:
        connection = self._connection()
        connection.request("GET", f"/bucket/small/{number}")
        return len(connection.getresponse().read())

    def get_range(self, start: int, target: memoryview) -> None:
        connection = self._connection()
        connection.request("GET", "/bucket/large", headers={"Range": f"bytes={start}-{start + len(target) - 1}"})
        answer, position = connection.getresponse(), 0
        while position < len(target):
            position += answer.readinto(target[position:])
        answer.read()

    def put_part(self, number: int, body: memoryview) -> None:
        connection = self._connection()
        connection.request("PUT", f"/bucket/large?partNumber={number}", body=body)
        connection.getresponse().read()


class Obstore(Threads):
    """obstore, with unsigned payloads; large reads split into single range calls, since it splits none itself."""

    name = "obstore"

    def __init__(self, endpoint: str, certificate: str | None) -> None:
        super().__init__(endpoint, certificate)
        from obstore.store import S3Store

        self._store = S3Store(
            "bucket",
            endpoint=endpoint,
            region="us-east-1",
            access_key_id="id",
            secret_access_key="secret",
            config={"unsigned_payload": True},
            client_options={"allow_http": True, "allow_invalid_certificates": certificate is not None},
        )

    def get_small(self, number: int) -> int:
        import obstore

        return len(obstore.get(self._store, f"small/{number}").bytes())

    def get_range(self, start: int, target: memoryview) -> None:
        import obstore

        target[:] = memoryview(obstore.get_range(self._store, "large", start=start, length=len(target)))

    def write(self, content: memoryview) -> None:
        import obstore

        obstore.put(self._store, "large", content, chunk_size=PART_BYTES, max_concurrency=WRITE_IN_FLIGHT)


ENGINES = (Torchbucket, PycurlThreads, HttpClient, Obstore)


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


def table(runs: list[dict[str, Any]], command: str, host: str) -> str:
    """The runs as Markdown: medians, with the least and the most of CPU time in brackets."""
    lines = [
        "# Engines measured",
        "",
        f"`{command}`",
        "",
        host,
        "",
        "Medians; the least and the most in brackets. torchbucket signs, checks and retries, and sums a CRC-32 of what "
        "it writes; pycurl-threads and http.client do none of that. Runs differ by a third on a shared machine.",
        "",
        "| work | engine | HTTP: rate | HTTP: CPU | TLS: rate | TLS: CPU |",
        "|---|---|---|---|---|---|",
    ]
    for work in dict.fromkeys(run["work"] for run in runs):
        for engine in dict.fromkeys(run["engine"] for run in runs):
            cells = []
            for tls in (False, True):
                chosen = [r for r in runs if (r["work"], r["engine"], r["tls"]) == (work, engine, tls)]
                wall_s = statistics.median(run["wall_s"] for run in chosen)
                used = sorted(run["cpu_s"] for run in chosen)
                if work == "small reads":
                    scale, unit = 1000 / SMALL_COUNT, "ms an object"
                    cells.append(f"{SMALL_COUNT / wall_s:,.0f} objects/s")
                else:
                    scale, unit = (1 << 30) / LARGE_BYTES, "s a GiB"
                    cells.append(f"{LARGE_BYTES / MIB / wall_s:,.0f} MiB/s")
                figures = [value * scale for value in (statistics.median(used), used[0], used[-1])]
                cells.append("{:.2f} {} ({:.2f} to {:.2f})".format(figures[0], unit, *figures[1:]))
            lines.append(f"| {work} | {engine} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write OUTPUT.json and OUTPUT.md")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--certificate", default="", help=argparse.SUPPRESS)
    parser.add_argument("--key", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve, arguments.certificate, arguments.key)
        return
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
