"""A testbed in a process of its own, for as long as a `with` block lasts."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from buckettestbed.auth.credentials import Credentials
from buckettestbed.presets import Faults, load_faults, load_network
from buckettestbed.serving.log import LoggedRequest
from buckettestbed.statuses import DIRECTORY_IN_USE, FOREIGN_DIRECTORY

__all__ = ["DirectoryInUseError", "ForeignDirectoryError", "RunningTestbed", "TestbedError", "launch_testbed"]

_LOOPBACK = "127.0.0.1"

_START_LIMIT_S = 60.0
"""*Source*: ours; it takes under a second, and about 15 s for a directory of a million objects."""

_PUT_TOGETHER = 10_000
"""Objects that one admin request puts. JSON spells a byte of a key in six at worst, so that it stays below 64 MiB."""

_STOP_LIMIT_S = 10.0
"""*Source*: ours; the server cuts running requests after 2 s."""


class TestbedError(RuntimeError):
    """The testbed did not start, ended too early, or refused an admin request; the message has what it wrote."""

    __test__ = False  # Its name is not that of a test class.


class DirectoryInUseError(TestbedError):
    """The testbed did not start because another one serves its directory."""


class ForeignDirectoryError(TestbedError):
    """The testbed did not start because its directory is none of a testbed's, or of another format."""


_KINDS = {DIRECTORY_IN_USE: DirectoryInUseError, FOREIGN_DIRECTORY: ForeignDirectoryError}
"""What went wrong, by the exit status of a testbed that did not start."""


@dataclass(frozen=True, kw_only=True)
class RunningTestbed:
    """A testbed that serves. Usable from any thread and, as an address, from any process.

    `s3_endpoint` and `gcs_endpoint` are what clients take as their endpoint; `admin` the admin route's address;
    `ca_certificate` the PEM file that verifies the server's certificate, or None without TLS; `credentials` those that
    it demands, or None where it demands none; `pid` the server's process.
    """

    s3_endpoint: str
    gcs_endpoint: str
    admin: str
    ca_certificate: Path | None
    credentials: Credentials | None = None
    pid: int

    def counts(self) -> dict[str, Any]:
        """Returns what was counted since the start or the last reset; see `Counters.snapshot`."""
        return cast("dict[str, Any]", self._ask("GET", "counts"))

    def reset_counts(self) -> dict[str, Any]:
        """Starts the counts again and empties the log; returns the counts as they were."""
        return cast("dict[str, Any]", self._ask("POST", "reset"))

    def set_network(self, model: str | Mapping[str, object]) -> None:
        """Replaces the network model for requests that begin later.

        Takes what `launch_testbed` takes. Fields left out of a mapping have their defaults, so `{}` turns the model
        off.
        """
        fields = load_network(model).to_mapping() if isinstance(model, str) else dict(model)
        self._ask("PUT", "network", json.dumps(fields).encode())

    def network(self) -> dict[str, Any]:
        """Returns the network model's fields."""
        return cast("dict[str, Any]", self._ask("GET", "network"))

    def set_faults(self, faults: Faults) -> None:
        """Replaces what goes wrong for requests that begin later, and starts the draws and counts of the rules.

        Takes what `launch_testbed` takes; `none` and `[]` end all faults.
        """
        self._ask("PUT", "faults", json.dumps(load_faults(faults).to_mapping()).encode())

    def faults(self) -> dict[str, Any]:
        """Returns the seed and the rules, each with how many requests it `matched` and faults it `injected`."""
        return cast("dict[str, Any]", self._ask("GET", "faults"))

    def put_objects(self, bucket: str, objects: Iterable[tuple[str, int]]) -> int:
        """Puts objects of zero bytes, given as key and size in bytes, into a bucket by the admin route, and returns how
        many: 70,000 a second, where PUT requests are some 3,000.

        Raises TestbedError where there is no such bucket, a key is longer than 1,024 bytes, or an object larger than
        1 MiB.
        """
        count, remaining = 0, iter(objects)
        while batch := list(islice(remaining, _PUT_TOGETHER)):
            body = json.dumps({"bucket": bucket, "objects": batch}).encode()
            count += cast("int", self._ask("POST", "objects", body))
        return count

    def requests(self, after: int = 0) -> list[LoggedRequest]:
        """Returns the log's requests that are numbered above `after`, in the order in which they ended.

        Raises TestbedError where the testbed keeps no log, or has dropped some of them because more came than it keeps.
        """
        found: list[LoggedRequest] = []
        more = True
        while more:
            page = cast("dict[str, Any]", self._ask("GET", f"requests?after={after}"))
            if page["dropped"]:
                raise TestbedError(
                    f"the log has dropped {page['dropped']} requests after number {after}; keep more by log_requests,"
                    " or ask more often"
                )
            found += map(LoggedRequest.from_mapping, page["requests"])
            after, more = (found[-1].number, page["more"]) if found else (after, False)
        return found

    def open_uploads(self) -> list[dict[str, Any]]:
        """Returns the multipart uploads and resumable sessions that were neither completed nor given up; see
        `admin.uploads.open_uploads`."""
        return cast("list[dict[str, Any]]", self._ask("GET", "uploads"))

    def object_counts(self) -> dict[str, int]:
        """Returns how many objects each bucket has."""
        return cast("dict[str, int]", self._ask("GET", "objects"))

    def snapshot(self) -> dict[str, Any]:
        """Returns `counts`, `network`, `faults`, `uploads` and the state of the `log`, of one moment."""
        return cast("dict[str, Any]", self._ask("GET", "snapshot"))

    def _ask(self, method: str, name: str, body: bytes | None = None) -> object:
        url = f"{self.admin}/{name}"
        request = urllib.request.Request(url, data=body, method=method)  # noqa: S310 - our own server's address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # Loopback needs no proxy.
        try:
            with opener.open(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise TestbedError(
                f"{method} {self.admin}/{name} was refused: {error.read().decode(errors='replace')}"
            ) from None


@contextlib.contextmanager
def launch_testbed(
    *,
    buckets: Iterable[str] = (),
    network: str | Mapping[str, object] = "none",
    faults: Faults = "none",
    log_requests: int = 0,
    host: str = _LOOPBACK,
    tls: bool = False,
    directory: str | os.PathLike[str] | None = None,
    minimum_part_bytes: int | None = None,
    opaque_etags: bool = False,
    require_auth: bool = False,
    public_buckets: Iterable[str] = (),
    token_lifetime_s: float = 3600.0,
    idle_timeout_s: float | None = None,
    start_limit_s: float = _START_LIMIT_S,
) -> Iterator[RunningTestbed]:
    """Runs a testbed in a process of its own on free ports of loopback; it ends with the block, and with this process
    however that ends.

    Args:
        buckets: buckets to make where they do not exist.
        network: a preset's name, a YAML file's path, or the fields of a `NetworkModel`.
        faults: a preset's name, a YAML file's path, a mapping of `seed` and `rules`, or a list of rules, each with the
            fields of a `FaultRule`.
        log_requests: how many of the latest requests the log keeps; 0 for no log.
        host: this machine's address to listen on. One that is not of loopback is reachable from other machines, and
            nothing is authenticated; the admin route stays on loopback.
        tls: serve HTTPS; verify with `ca_certificate`.
        directory: keep objects there instead of in memory; it must be empty, not exist, or be a testbed's from before.
        minimum_part_bytes: least size of a multipart upload's part other than the last; None for the providers' 5 MiB.
        opaque_etags: give objects ETags that are no MD5 of their bytes, as S3 does under a KMS key; uploads cost less.
        require_auth: refuse requests without one of the testbed's `credentials`, as the provider would.
        public_buckets: buckets that anyone may read in spite of that; made where they do not exist.
        token_lifetime_s: validity of OAuth access tokens, and of the temporary access key from the start on.
        idle_timeout_s: seconds after which a connection ends whose client is to send something and does not; None for
            75.
        start_limit_s: seconds to wait until it serves.

    Raises:
        TestbedError: it did not start in time or ended at once; the message says what it wrote.
        DirectoryInUseError: another testbed serves `directory`.
        ForeignDirectoryError: `directory` is none of a testbed's, or of another format; nothing in it was touched.
        FaultError: the faults are not valid.
    """
    command = [sys.executable, "-m", "buckettestbed", "--port", "0", "--exit-with-parent"]
    command += ["--network", network if isinstance(network, str) else json.dumps(dict(network))]
    command += ["--faults", json.dumps(load_faults(faults).to_mapping()), "--log-requests", str(log_requests)]
    for bucket in buckets:
        command += ["--bucket", bucket]
    if host != _LOOPBACK:
        command += ["--host", host, "--allow-remote"]
    if tls:
        command.append("--tls")
    if directory is not None:
        command += ["--directory", os.fspath(directory)]
    if minimum_part_bytes is not None:
        command += ["--minimum-part-bytes", str(minimum_part_bytes)]
    if opaque_etags:
        command.append("--opaque-etags")
    if require_auth:
        command += ["--require-auth", "--token-lifetime-s", repr(token_lifetime_s)]
    if idle_timeout_s is not None:
        command += ["--idle-timeout-s", repr(idle_timeout_s)]
    for bucket in public_buckets:
        command += ["--public-bucket", bucket]
    with tempfile.TemporaryFile() as log:
        # In a session of its own: Ctrl-C is for who started it, and still needs it to end what is under way.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        try:
            testbed = _announced(process, log, start_limit_s)
            try:
                yield testbed
            finally:
                _stop(process)
                sys.stderr.write(_text(log))
        finally:
            _stop(process)


def _announced(process: "subprocess.Popen[bytes]", log: IO[bytes], start_limit_s: float) -> RunningTestbed:
    """Waits for the line that a testbed prints when it is ready."""
    assert process.stdout is not None
    line, limit_s = b"", time.monotonic() + start_limit_s
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, limit_s - time.monotonic()))
        if not readable:
            raise TestbedError(
                f"the testbed did not start within {start_limit_s} s; it wrote: {_text(log) or 'nothing'}"
            )
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            status = process.wait(_STOP_LIMIT_S)
            raise _KINDS.get(status, TestbedError)(
                f"the testbed ended with status {status} instead of starting; it wrote: {_text(log) or 'nothing'}"
            )
        line += piece
    announced = json.loads(line)
    ca_certificate, credentials = announced["ca_certificate"], announced["credentials"]
    return RunningTestbed(
        s3_endpoint=announced["s3_endpoint"],
        gcs_endpoint=announced["gcs_endpoint"],
        admin=announced["admin"],
        ca_certificate=Path(ca_certificate) if ca_certificate else None,
        credentials=Credentials.read(Path(credentials)) if credentials else None,
        pid=announced["pid"],
    )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _text(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")
