"""Samples what the measured process and its workers use, from a thread of the measured process."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from bucketbench.records import UsageSample
from bucketbench.telemetry.gpu import Gpus
from bucketbench.telemetry.network import read_network
from bucketbench.telemetry.others import OtherProcesses, cpu_s_of
from bucketbench.telemetry.processes import ProcessTree
from bucketbench.telemetry.processors import read_processors
from bucketbench.telemetry.quota import ProcessorQuota

__all__ = ["UsageSampler"]

_CPU_SHARE = 0.02
"""Part of one core that the thread may take. *Source*: our choice, below what repeats of a job differ by.

A reading walks the address space of every process, some milliseconds in all for a trainer with a few workers, so that
the interval is stretched where ``interval_s`` would take more.
"""


class UsageSampler:
    """Writes a line of usage for the calling process and all its descendants, every so often and on demand.

    Samples are taken at entry, at exit, whenever ``sample`` is called, and by a thread in between. Call ``sample`` at
    the edges of what is measured: what was used between two edges is the difference of their samples.

    A worker that ends takes nothing with it: its CPU time stays counted, as ``ProcessTree`` describes. The CPU time of
    the sampling itself is left out of ``cpu_s``, and ``own_cpu_s`` tells it; ``harness_cpu_s`` of a sample has that and
    what processes of the harness used. What others use is in the samples on demand alone: reading it takes 20 µs for
    each process of the machine. One reading of the rest costs about 1 ms and 1 ms more
    for each 100 MiB of memory of the processes; the thread takes longer pauses where that would be over 2 % of a core.

    Example:
        >>> with UsageSampler(Path("usage.jsonl")) as sampler:  # doctest: +SKIP
        ...     before = sampler.sample()
        ...     work()
        ...     after = sampler.sample()

    ``sample`` may be called from any thread. Workers may be forked while the sampler runs: they inherit no thread, and
    nothing buffered that they could write a second time; they must not call it.
    """

    def __init__(
        self,
        path: Path,
        *,
        interval_s: float = 0.1,
        others: OtherProcesses | None = None,
        harness: Collection[int] = (),
    ) -> None:
        """Sample into a file.

        Args:
            path: file that the samples are appended to, one JSON object a line; each line is written whole, at once.
            interval_s: pause of the thread between two samples, in seconds, at least.
            others: reads what is no part of the measurement; None where another rank of this machine does.
            harness: ids of the processes of the harness whose time counts as its own.

        Raises:
            ValueError: for an interval that is not positive.
        """
        if not interval_s > 0:
            raise ValueError(f"interval_s must be above 0 seconds, got {interval_s!r}")
        self._path = path
        self._interval_s = interval_s
        self._others = others
        self._harness = harness
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._highest_cpu_s = 0.0
        self.own_cpu_s = 0.0
        self.written = 0

    @property
    def memory_kind(self) -> str:
        """``pss`` where ``rss_bytes`` counts a shared page once, ``rss`` where it counts it once a process."""
        return self._tree.memory_kind

    def __enter__(self) -> Self:
        """Take the first sample and start the thread.

        Raises:
            OSError: where the file cannot be written.
        """
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._tree = ProcessTree()
        self._gpus = Gpus()
        self._quota = ProcessorQuota()
        self.sample()
        self._thread = threading.Thread(target=self._run, name="usage-sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the thread and take the last sample.

        Raises:
            Exception: what ended the thread early, unless the block itself raised; its samples would have a hole.
        """
        self._stop.set()
        self._thread.join()
        try:
            if self._failure is None:
                self.sample()
            elif error is None:
                raise self._failure
        finally:
            self._gpus.close()
            os.close(self._descriptor)

    def sample(self) -> UsageSample:
        """Take a sample now, with what others use, write it and return it.

        Returns:
            The sample; its ``at_s`` is ``time.monotonic()`` at the start of the reading.

        Raises:
            OSError: where it could not be written.
        """
        return self._sample(self._others)

    def _sample(self, others: OtherProcesses | None) -> UsageSample:
        with self._lock:
            began_s = time.thread_time()
            at_s, wall_clock_s = time.monotonic(), time.time()
            host = read_processors()
            harness_s = self.own_cpu_s + cpu_s_of(self._harness)
            tree = self._tree.read()
            network = read_network()
            gpu = self._gpus.read()
            quota = self._quota.read()
            found = None if others is None else others.read()
            # Earlier readings only: this one's cost is not in what it read. The kernel counts in ticks and thread_time
            # in nanoseconds, so that the difference alone might fall.
            self._highest_cpu_s = max(self._highest_cpu_s, tree.cpu_s - self.own_cpu_s)
            sample = UsageSample(
                at_s=at_s,
                cpu_s=self._highest_cpu_s,
                rss_bytes=tree.memory_bytes,
                processes=tree.processes,
                network_received_bytes=None if network is None else network.received_bytes,
                network_sent_bytes=None if network is None else network.sent_bytes,
                gpu_utilisation_percent=None if gpu is None else gpu.utilisation_percent,
                gpu_memory_bytes=None if gpu is None else gpu.memory_bytes,
                wall_clock_s=wall_clock_s,
                host_busy_s=None if host is None else host.busy_s,
                host_steal_s=None if host is None else host.steal_s,
                host_passed_s=None if host is None else host.passed_s,
                storage_read_bytes=tree.storage_read_bytes,
                host_interrupts_s=None if host is None else host.interrupts_s,
                harness_cpu_s=harness_s,
                others_cpu_s=None if found is None else found.cpu_s,
                others_are_all=None if found is None else found.are_all,
                quota_periods=None if quota is None else quota.periods,
                quota_throttled_periods=None if quota is None else quota.throttled,
            )
            self._write(json.dumps(sample.to_json()).encode() + b"\n")
            self.own_cpu_s += time.thread_time() - began_s
            return sample

    def _write(self, line: bytes) -> None:
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"wrote {written} of {len(line)} bytes of a usage sample to {self._path}: is the disk full?")
        self.written += 1

    def _run(self) -> None:
        try:
            pause_s = self._interval_s
            while not self._stop.wait(pause_s):
                before_s = time.thread_time()
                self._sample(None)
                pause_s = max(self._interval_s, (time.thread_time() - before_s) / _CPU_SHARE)
        except Exception as error:  # noqa: BLE001 - raised again at exit, in the thread that can act on it
            self._failure = error
