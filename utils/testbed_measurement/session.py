"""A testbed under measurement: loads from a process of their own, and what each of them took."""

import multiprocessing
import ssl
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

import psutil

from buckettestbed import RunningTestbed, launch_testbed
from testbed_measurement.load import Load, Outcome, run_load

BUCKET = "measure"
TINY_KEY, SMALL_KEY, LARGE_KEY = "tiny", "small", "large"
TINY_BYTES, SMALL_BYTES, LARGE_BYTES = 1 << 10, 100 << 10, 512 << 20
SMALL_OBJECTS = 100


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A load's outcome, the server's processor seconds meanwhile, and its counts."""

    outcome: Outcome
    server_cpu_s: float
    counts: dict[str, Any]

    @property
    def server_cores(self) -> float:
        """Processors that the server kept busy."""
        return self.server_cpu_s / self.outcome.elapsed_s

    @property
    def warnings(self) -> int:
        """How often the testbed said in its log that it does not keep the model."""
        return int(self.counts.get("network", {}).get("warnings", 0))


class Session:
    """One running testbed and one client process."""

    def __init__(self, testbed: RunningTestbed, clients: ProcessPoolExecutor, *, large_bytes: int) -> None:
        self.testbed = testbed
        self.large_bytes = large_bytes
        self._clients = clients
        self._server = psutil.Process(testbed.pid)

    def measure(self, load: Load) -> Measured:
        """Runs a load to its end."""
        certificate = self.testbed.ca_certificate
        load = replace(load, ca_certificate=str(certificate) if certificate else None)
        self.testbed.reset_counts()
        before_s = self._server_cpu_s()
        outcome = self._clients.submit(run_load, load).result()
        return Measured(outcome=outcome, server_cpu_s=self._server_cpu_s() - before_s, counts=self.testbed.counts())

    def store(self, *keys: str, size_bytes: int) -> None:
        """Stores objects of zeros, with the model off."""
        put = Load(
            endpoint=self.testbed.s3_endpoint,
            paths=tuple(f"/{BUCKET}/{key}" for key in keys),
            connections=1,
            requests=len(keys),
            method="PUT",
            body_bytes=size_bytes,
        )
        self.measure(put)

    def open_upload(self, key: str) -> str:
        """Opens a multipart upload and returns its id."""
        certificate = self.testbed.ca_certificate
        context = ssl.create_default_context(cafile=str(certificate)) if certificate else None
        url = f"{self.testbed.s3_endpoint}/{BUCKET}/{key}?uploads"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), context=context) as answer:
            found = ElementTree.fromstring(answer.read()).findtext("{*}UploadId")
        if found is None:
            raise RuntimeError(f"POST {url} was answered without an UploadId")
        return found

    def _server_cpu_s(self) -> float:
        times = self._server.cpu_times()
        return float(times.user + times.system)


@contextmanager
def session(*, large_bytes: int = LARGE_BYTES, **options: Any) -> Iterator[Session]:
    """Starts a testbed with `launch_testbed`'s options, the model off, and fills it with the objects that are read, the
    large one of `large_bytes`."""
    context = multiprocessing.get_context("spawn")
    with (
        launch_testbed(buckets=[BUCKET], **options) as testbed,
        ProcessPoolExecutor(1, mp_context=context) as clients,
    ):
        started = Session(testbed, clients, large_bytes=large_bytes)
        started.store(TINY_KEY, size_bytes=TINY_BYTES)
        started.store(*(f"{SMALL_KEY}/{number}" for number in range(SMALL_OBJECTS)), size_bytes=SMALL_BYTES)
        started.store(LARGE_KEY, size_bytes=large_bytes)
        time.sleep(0.2)
        yield started
