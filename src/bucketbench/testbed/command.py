"""The command line of the testbed."""

import argparse
import ipaddress
import json
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bucketbench.testbed.admin import ADMIN_PATH
from bucketbench.testbed.application import Application
from bucketbench.testbed.directory import DirectoryError, DirectoryHolder
from bucketbench.testbed.memory import MemoryHolder
from bucketbench.testbed.network import NetworkModelError
from bucketbench.testbed.objects import Buckets, InvalidBucketNameError
from bucketbench.testbed.presets import load_network
from bucketbench.testbed.server import listen, serve
from bucketbench.testbed.tls import ThrowAwayAuthority

__all__ = ["main"]


class _UsageError(Exception):
    """A mistake on the command line, told in one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def _parser() -> _Parser:
    parser = _Parser(
        prog="bucketbench testbed",
        description="Serve S3 to any client on this machine: one line of JSON when it is ready, then until SIGTERM.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; only loopback unless --allow-remote is given"
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 for a free one")
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="let --host be reachable from other machines: nothing is authenticated",
    )
    parser.add_argument(
        "--bucket", action="append", default=[], metavar="NAME", help="bucket to make if it is not there; repeatable"
    )
    parser.add_argument("--network", default="none", metavar="NAME|FILE.yaml", help="network model")
    parser.add_argument("--directory", metavar="DIR", help="keep objects in this directory instead of memory")
    parser.add_argument("--tls", action="store_true", help="serve HTTPS with a throw-away certificate authority")
    parser.add_argument(
        "--log-level", default="warning", choices=("debug", "info", "warning", "error"), help="of the log on stderr"
    )
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="end when standard input ends or the parent process is gone"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the testbed; returns the exit status: 0 after a signal, 2 for a mistake in the arguments, told on stderr.

    Args:
        argv: the arguments after the program's name; None takes them from `sys.argv`.
    """
    try:
        options = _parser().parse_args(argv)
        return _run(options)
    except _UsageError as error:
        print(f"bucketbench testbed: {error}", file=sys.stderr)  # noqa: T201 - the command line's own output.
        return 2


def _run(options: argparse.Namespace) -> int:
    _check_host(options.host, allow_remote=options.allow_remote)
    if not 0 <= options.port <= 65535:
        raise _UsageError(f"--port {options.port} is not a port; expected 0 to 65535")
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        model = load_network(options.network)
    except NetworkModelError as error:
        raise _UsageError(f"--network: {error}") from None
    buckets = _buckets(options)
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        raise _UsageError(f"cannot listen on {options.host} port {options.port}: {error.strerror or error}") from None
    authority = (
        ThrowAwayAuthority(host=options.host, buckets=[bucket.name for bucket in buckets]) if options.tls else None
    )
    application = Application(buckets, network=model, base_hosts=("localhost", options.host.lower()))
    try:
        serve(
            application,
            listener,
            ready=lambda: _announce(options.host, listener, authority),
            certificate=str(authority.certificate) if authority else None,
            key=str(authority.key) if authority else None,
            with_parent=options.exit_with_parent,
        )
    finally:
        if authority is not None:
            authority.close()
    return 0


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
        holder = MemoryHolder() if options.directory is None else DirectoryHolder(Path(options.directory))
        buckets = Buckets(holder)
    except DirectoryError as error:
        raise _UsageError(f"--directory: {error}") from None
    for name in options.bucket:
        try:
            if buckets.find(name) is None:
                buckets.create_bucket(name)
        except InvalidBucketNameError:
            raise _UsageError(f"--bucket {name!r} is not a bucket name; use 3 to 63 of a-z, 0-9, '.' and '-'") from None
    return buckets


def _announce(host: str, listener: socket.socket, authority: ThrowAwayAuthority | None) -> None:
    """Prints the one line that says where the testbed is."""
    name = f"[{host}]" if ":" in host else host
    endpoint = f"{'https' if authority else 'http'}://{name}:{listener.getsockname()[1]}"
    line = {
        "s3_endpoint": endpoint,
        "admin": endpoint + ADMIN_PATH,
        "ca_certificate": str(authority.ca_certificate) if authority else None,
        "pid": os.getpid(),
    }
    print(json.dumps(line), flush=True)  # noqa: T201 - the command's result.
