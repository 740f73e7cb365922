"""What jobs run on: the testbeds that are started for them, and where the objects of each job lie."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from bucketbench.clients.protocol import Target
from bucketbench.configuration.settings import JobSettings
from bucketbench.job.environment import TESTBED_REGION, ask_testbed_directly
from bucketbench.progress import say
from buckettestbed.launch import DirectoryInUseError, ForeignDirectoryError, RunningTestbed, launch_testbed

__all__ = ["Testbeds"]

# Whether TLS is spoken and ETags are opaque, where objects are kept, the bucket, and where it listens.
_Key = tuple[bool, bool, str, str, str]


class Testbeds:
    """Finds the testbeds that run for a sweep, or starts them as jobs need them; its own end with the block.

    A testbed listens on the loopback address, so that a job on another machine starts one of its own. A job of several
    machines has one, on the first of them, and has to tell it an address that the others reach (``target.listen``).

    Args:
        keeps_objects: whether they keep their objects in ``cache_dir``, so that the next sweep finds them.
        running: what ``running`` of another process told.
    """

    __test__ = False  # its name is not that of a test class

    def __init__(self, *, keeps_objects: bool, running: Iterable[Mapping[str, Any]] = ()) -> None:
        self._keeps_objects = keeps_objects
        self._stack = ExitStack()
        self._passed_over: set[Path] = set()
        self._testbeds: dict[_Key, RunningTestbed] = dict(_found_here(running))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def running(self) -> list[dict[str, Any]]:
        """The testbeds as plain JSON values, for other processes of this machine."""
        return [
            {
                "key": list(key),
                "node": platform.node(),
                "pid": testbed.pid,
                "s3_endpoint": testbed.s3_endpoint,
                "gcs_endpoint": testbed.gcs_endpoint,
                "admin": testbed.admin,
                "ca_certificate": None if testbed.ca_certificate is None else str(testbed.ca_certificate),
            }
            for key, testbed in self._testbeds.items()
        ]

    def target(self, settings: JobSettings) -> Target:
        """Where the job's objects lie; starts the testbed that serves them where it does not run yet."""
        return self._target(settings, scheme=settings.config["target"]["scheme"])

    def maker_target(self, settings: JobSettings) -> Target:
        """The same place as the objects are written to it.

        The testbed has the same objects on both of its ports. They are written by S3, so that a data set is made once
        for both.
        """
        return self._target(settings, scheme="s3" if settings.uses_testbed else settings.config["target"]["scheme"])

    def _target(self, settings: JobSettings, *, scheme: str) -> Target:
        fields = settings.config["target"]
        testbed = self.testbed(settings)
        target = Target(
            scheme=scheme,
            bucket=fields["bucket"],
            prefix=settings.prefix,
            endpoint=fields["endpoint"],
            region=fields["region"],
            path_style=fields["path_style"],
            anonymous=fields["anonymous"],
            ca_bundle=fields["ca_bundle"],
        )
        if testbed is None:
            return target
        is_s3 = scheme == "s3"
        return replace(
            target,
            endpoint=testbed.s3_endpoint if is_s3 else testbed.gcs_endpoint,
            region=TESTBED_REGION if is_s3 else None,
            ca_bundle=None if testbed.ca_certificate is None else str(testbed.ca_certificate),
        )

    def testbed(self, settings: JobSettings) -> RunningTestbed | None:
        """The testbed of the job, None for a real service; starts it where it does not run yet."""
        if not settings.uses_testbed:
            return None
        fields = settings.config["target"]
        tls, opaque_etags, bucket = bool(fields["tls"]), bool(fields["opaque_etags"]), str(fields["bucket"])
        host = str(fields["listen"])
        key = (tls, opaque_etags, str(settings.cache_directory), bucket, host)
        if key not in self._testbeds:
            ask_testbed_directly(os.environ, host)
            self._testbeds[key] = self._launch(
                settings, buckets=[bucket], host=host, tls=tls, opaque_etags=opaque_etags
            )
        return self._testbeds[key]

    def _launch(self, settings: JobSettings, **options: Any) -> RunningTestbed:
        """Start a testbed; one that keeps objects in the first directory of the cache that is free and its own."""
        if not self._keeps_objects:
            return self._stack.enter_context(launch_testbed(**options))
        for number in count(1):
            directory = settings.cache_directory / f"testbed-{number}"
            try:
                return self._stack.enter_context(launch_testbed(directory=directory, **options))
            except DirectoryInUseError:
                continue
            except ForeignDirectoryError:
                if directory not in self._passed_over:
                    self._passed_over.add(directory)
                    say(f"{directory} is of another release's testbed and stays as it is: remove it to have its space")
        raise AssertionError("numbers have no end")


def _found_here(running: Iterable[Mapping[str, Any]]) -> Iterable[tuple[_Key, RunningTestbed]]:
    for fields in running:
        if fields["node"] == platform.node() and psutil.pid_exists(fields["pid"]):
            tls, opaque_etags, directory, bucket, host = fields["key"]
            ca_certificate = fields["ca_certificate"]
            yield (
                (tls, opaque_etags, directory, bucket, host),
                RunningTestbed(
                    s3_endpoint=fields["s3_endpoint"],
                    gcs_endpoint=fields["gcs_endpoint"],
                    admin=fields["admin"],
                    ca_certificate=None if ca_certificate is None else Path(ca_certificate),
                    pid=fields["pid"],
                ),
            )
