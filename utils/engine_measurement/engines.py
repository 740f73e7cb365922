"""The four engines: torchbucket's store, and what could have been in its place."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from engine_measurement.work import (
    LARGE_BYTES,
    LARGE_IN_FLIGHT,
    MIB,
    PART_BYTES,
    SMALL_BYTES,
    SMALL_COUNT,
    SMALL_IN_FLIGHT,
    WRITE_IN_FLIGHT,
)

__all__ = ["ENGINES", "Engine"]


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
        from torchbucket.store import Read

        reads = (Read(key=f"small/{n}", size_bytes=SMALL_BYTES) for n in range(SMALL_COUNT))
        futures = deque(map(self._small.submit_read, reads))
        while futures:  # Like the others, it lets go of each object: to keep all takes fresh pages for each.
            assert len(futures.popleft().result().data) == SMALL_BYTES

    def large(self, target: memoryview) -> None:
        from torchbucket.store import Read

        read = Read(key="large", into=target, size_bytes=LARGE_BYTES)
        assert len(self._large.submit_read(read).result().data) == LARGE_BYTES

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
