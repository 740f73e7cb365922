"""The command line of the testbed."""

import argparse
import contextlib
import ipaddress
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from buckettestbed.admin.route import Admin
from buckettestbed.auth.gcs import TOKEN_PATH
from buckettestbed.auth.required import authenticated_gcs, authenticated_s3
from buckettestbed.auth.throwaway import TOKEN_LIFETIME_LIMIT_S, ThrowAwayCredentials
from buckettestbed.faults.rules import FaultError
from buckettestbed.gcs.service import GcsService
from buckettestbed.model.buckets import Buckets
from buckettestbed.model.directory import DirectoryStorage
from buckettestbed.model.errors import (
    DirectoryError,
    DirectoryInUseError,
    ForeignDirectoryError,
    InvalidBucketNameError,
)
from buckettestbed.model.memory import MemoryStorage
from buckettestbed.network.model import NetworkModelError
from buckettestbed.presets import load_faults, load_network
from buckettestbed.rest.call import PART_MINIMUM_BYTES
from buckettestbed.s3.service import S3Service
from buckettestbed.serving.application import Application
from buckettestbed.serving.dialect import Dialect
from buckettestbed.serving.server import IDLE_TIMEOUT_S, listen, serve
from buckettestbed.serving.tls import ThrowAwayAuthority
from buckettestbed.statuses import DIRECTORY_IN_USE, FOREIGN_DIRECTORY, UNANNOUNCED, USAGE

__all__ = ["main"]

_ADMIN_HOST = "127.0.0.1"
"""The admin route's, whatever `--host` is."""

_IDLE_TIMEOUT_LIMIT_S = 86_400.0
"""*Source*: ours; a day is as good as for ever, and the event loop's timers take no number without end."""


class _UsageError(Exception):
    """A mistake on the command line, told in one line; `status` is the exit status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def _parser() -> _Parser:
    parser = _Parser(
        prog="buckettestbed",
        description="Serve S3 and GCS to any client of this machine until SIGTERM; prints one line of JSON when ready.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; only loopback unless --allow-remote is given"
    )
    parser.add_argument("--port", type=int, default=0, help="port that S3 is served on; 0 for a free one")
    parser.add_argument("--gcs-port", type=int, default=0, help="port that GCS is served on; 0 for a free one")
    parser.add_argument(
        "--admin-port", type=int, default=0, help="port of 127.0.0.1 that the admin route is on; 0 for a free one"
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="let --host be reachable from other machines; the admin route is not",
    )
    parser.add_argument(
        "--bucket", action="append", default=[], metavar="NAME", help="bucket to make if it is not there; repeatable"
    )
    parser.add_argument("--network", default="none", metavar="NAME|FILE.yaml", help="network model")
    parser.add_argument("--faults", default="none", metavar="NAME|FILE.yaml", help="what goes wrong, by rule")
    parser.add_argument(
        "--log-requests", type=int, default=0, metavar="N", help="keep a log of the latest N requests; 0 keeps none"
    )
    parser.add_argument("--directory", metavar="DIR", help="keep objects in this directory, which must be its own")
    parser.add_argument(
        "--minimum-part-bytes",
        type=int,
        default=PART_MINIMUM_BYTES,
        metavar="N",
        help="least size of a multipart upload's part other than the last; the providers' is 5 MiB",
    )
    parser.add_argument(
        "--opaque-etags",
        action="store_true",
        help="ETags that are no MD5 of the bytes, as S3 has them under a KMS key; uploads then cost half the processor",
    )
    parser.add_argument("--tls", action="store_true", help="serve HTTPS with a throw-away certificate authority")
    parser.add_argument(
        "--require-auth",
        action="store_true",
        help="refuse requests without credentials; those made for it are in the folder that is printed",
    )
    parser.add_argument(
        "--public-bucket",
        action="append",
        default=[],
        metavar="NAME",
        help="bucket that anyone may read in spite of --require-auth, made if it is not there; repeatable",
    )
    parser.add_argument(
        "--token-lifetime-s",
        type=float,
        default=3600.0,
        help="validity of OAuth access tokens, and of the temporary access key from the start on",
    )
    parser.add_argument(
        "--idle-timeout-s",
        type=float,
        default=IDLE_TIMEOUT_S,
        help="seconds after which a connection ends whose client is to send something and does not",
    )
    parser.add_argument(
        "--log-level", default="warning", choices=("debug", "info", "warning", "error"), help="of the log on stderr"
    )
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="end when standard input ends or the parent process is gone"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the testbed; returns the exit status: 0 after a signal, else one of `statuses`.

    Args:
        argv: the arguments after the program's name; None takes them from `sys.argv`.
    """
    try:
        options = _parser().parse_args(argv)
        return _run(options)
    except _UsageError as error:
        print(f"buckettestbed: {error}", file=sys.stderr)  # noqa: T201 - the command line's own output.
        return error.status


def _run(options: argparse.Namespace) -> int:
    _check_host(options.host, allow_remote=options.allow_remote)
    _check_auth(options)
    for name, port in (
        ("--port", options.port),
        ("--gcs-port", options.gcs_port),
        ("--admin-port", options.admin_port),
    ):
        if not 0 <= port <= 65535:
            raise _UsageError(f"{name} {port} is not a port; expected 0 to 65535")
    if not 0 <= options.minimum_part_bytes <= PART_MINIMUM_BYTES:
        raise _UsageError(
            f"--minimum-part-bytes {options.minimum_part_bytes} is not from 0 to the providers' {PART_MINIMUM_BYTES}"
        )
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if not 0 < options.idle_timeout_s <= _IDLE_TIMEOUT_LIMIT_S:
        raise _UsageError(
            f"--idle-timeout-s {options.idle_timeout_s} is out of range; expected more than 0 and at most"
            f" {_IDLE_TIMEOUT_LIMIT_S}"
        )
    if options.log_requests < 0:
        raise _UsageError(f"--log-requests {options.log_requests} is not a number of requests; expected 0 or more")
    try:
        model = load_network(options.network)
        faults = load_faults(options.faults)
    except NetworkModelError as error:
        raise _UsageError(f"--network: {error}") from None
    except FaultError as error:
        raise _UsageError(f"--faults: {error}") from None
    buckets = _buckets(options)
    s3_listener, gcs_listener = (_listener(options.host, port) for port in (options.port, options.gcs_port))
    admin_listener = _listener(_ADMIN_HOST, options.admin_port)
    base_hosts = ("localhost", options.host.lower())
    s3 = S3Service(buckets, base_hosts=base_hosts, minimum_part_bytes=options.minimum_part_bytes)
    gcs = GcsService(buckets, base_hosts=base_hosts, minimum_part_bytes=options.minimum_part_bytes)
    dialects: dict[int, Dialect] = {_port(s3_listener): s3, _port(gcs_listener): gcs}
    with contextlib.ExitStack() as folders:
        authority, credentials = None, None
        if options.tls:
            authority = ThrowAwayAuthority(host=options.host, buckets=[bucket.name for bucket in buckets])
            folders.callback(authority.close)
        if options.require_auth:
            credentials = ThrowAwayCredentials(
                token_uri=_endpoint(options, gcs_listener) + TOKEN_PATH, token_lifetime_s=options.token_lifetime_s
            )
            folders.callback(credentials.close)
            public = options.public_bucket
            dialects = {
                _port(s3_listener): authenticated_s3(s3, credentials, buckets=buckets, public_buckets=public),
                _port(gcs_listener): authenticated_gcs(gcs, credentials, public_buckets=public),
            }
        announced = {
            "s3_endpoint": _endpoint(options, s3_listener),
            "gcs_endpoint": _endpoint(options, gcs_listener),
            "admin": f"http://{_ADMIN_HOST}:{_port(admin_listener)}",
            "ca_certificate": str(authority.ca_certificate) if authority else None,
            "credentials": str(credentials.folder) if credentials else None,
            "pid": os.getpid(),
        }
        application = Application(
            buckets, dialects=dialects, network=model, faults=faults, log_requests=options.log_requests
        )
        failures: list[OSError] = []
        serve(
            application,
            [s3_listener, gcs_listener],
            admin=Admin(application),
            admin_listener=admin_listener,
            ready=partial(_announce, announced, failures),
            certificate=str(authority.certificate) if authority else None,
            key=str(authority.key) if authority else None,
            with_parent=options.exit_with_parent,
            idle_timeout_s=options.idle_timeout_s,
        )
    if failures:
        reason = failures[0].strerror or failures[0]
        raise _UsageError(f"ended, as nobody reads where it serves: standard output: {reason}", UNANNOUNCED)
    return 0


def _announce(announced: Mapping[str, object], failures: list[OSError]) -> bool:
    """Prints where it serves; False where standard output does not take it, such as a pipe without a reader."""
    try:
        print(json.dumps(announced), flush=True)  # noqa: T201 - the command's result.
    except OSError as error:
        failures.append(error)
        # What it still holds would be written once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return not failures


def _check_auth(options: argparse.Namespace) -> None:
    """Refuses options of credentials that make no sense."""
    if options.public_bucket and not options.require_auth:
        raise _UsageError("--public-bucket needs --require-auth: without it every bucket is public")
    if not 0 < options.token_lifetime_s <= TOKEN_LIFETIME_LIMIT_S:
        raise _UsageError(
            f"--token-lifetime-s {options.token_lifetime_s} is out of range; expected more than 0 and at most"
            f" {TOKEN_LIFETIME_LIMIT_S}"
        )


def _check_host(host: str, *, allow_remote: bool) -> None:
    """Refuses an address that other machines reach, unless asked for."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise _UsageError(f"--host {host!r} is no address of this machine: {error.strerror or error}") from None
    if not allow_remote and not all(ipaddress.ip_address(str(address)).is_loopback for address in addresses):
        raise _UsageError(
            f"--host {host} can be reached from other machines and nothing is authenticated;"
            " add --allow-remote to serve there"
        )


def _buckets(options: argparse.Namespace) -> Buckets:
    """Returns the model with the buckets that were there and those asked for."""
    try:
        storage = MemoryStorage() if options.directory is None else DirectoryStorage(Path(options.directory))
        buckets = Buckets(storage, opaque_etags=options.opaque_etags)
    except DirectoryError as error:
        statuses = {DirectoryInUseError: DIRECTORY_IN_USE, ForeignDirectoryError: FOREIGN_DIRECTORY}
        raise _UsageError(f"--directory {options.directory}: {error}", statuses.get(type(error), USAGE)) from None
    named = [("--bucket", name) for name in options.bucket] + [
        ("--public-bucket", name) for name in options.public_bucket
    ]
    for option, name in named:
        try:
            if buckets.find(name) is None:
                buckets.create_bucket(name)
        except InvalidBucketNameError:
            raise _UsageError(f"{option} {name!r} is not a bucket name; use 3 to 63 of a-z, 0-9, '.' and '-'") from None
    return buckets


def _listener(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise _UsageError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _endpoint(options: argparse.Namespace, listener: socket.socket) -> str:
    """Returns the address that clients take as their endpoint."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{'https' if options.tls else 'http'}://{host}:{_port(listener)}"
