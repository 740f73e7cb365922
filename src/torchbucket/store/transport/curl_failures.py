"""What libcurl's errors mean for an operation."""

from __future__ import annotations

import errno
import os
from typing import Any, Final

import pycurl

from torchbucket.errors import StoreError, TransportError, TruncatedError
from torchbucket.store.transport.operation import Again, Operation

__all__ = ["NO_DESCRIPTORS", "curl_failure"]

# Failures that no other attempt can mend. Source: libcurl's list of error codes.
_HOPELESS: Final = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "the endpoint's scheme is not supported; use http or https",
    pycurl.E_URL_MALFORMAT: "the address could not be read; check endpoint and bucket",
    pycurl.E_PEER_FAILED_VERIFICATION: (
        "the server's certificate is not trusted; give the authority's file as StoreConfig.ca_bundle or in "
        "SSL_CERT_FILE, and check the host's name and the clock"
    ),
    pycurl.E_SSL_CACERT_BADFILE: "the file of trusted certificates could not be read; check StoreConfig.ca_bundle",
    pycurl.E_SSL_CERTPROBLEM: "the client's certificate could not be used",
    pycurl.E_OUT_OF_MEMORY: "libcurl ran out of memory",
}

_UNREACHABLE: Final = (pycurl.E_COULDNT_CONNECT, pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_RESOLVE_PROXY)

NO_DESCRIPTORS: Final = (
    "the process has no file descriptor left for a connection; raise its limit (`ulimit -n`), close stores and files, "
    "or lower StoreConfig.concurrency"
)


def curl_failure(operation: Operation[Any], number: int, text: str) -> Exception:
    """What a libcurl error means: ``Again`` around the error, or the error alone where no other attempt helps."""
    kind: type[StoreError] = TransportError
    unreachable = False
    if number in _HOPELESS:
        return operation.error(f"{_HOPELESS[number]} (libcurl {number}: {text})")
    if number == pycurl.E_PARTIAL_FILE:
        kind = TruncatedError
        advice = "the connection ended before the announced length"
    elif number == pycurl.E_OPERATION_TIMEDOUT:
        advice = "no connection or no byte in time; check the network, or raise connect_timeout_s or stall_timeout_s"
    elif number in _UNREACHABLE:
        unreachable = not _descriptors_used_up()
        advice = "no connection; check endpoint, network and proxy" if unreachable else NO_DESCRIPTORS
    else:
        advice = "the connection failed"
    return Again(operation.error(f"{advice} (libcurl {number}: {text})", kind), unreachable=unreachable)


def _descriptors_used_up() -> bool:
    """Whether the process can open nothing more, which libcurl reports as any other failure to connect or resolve."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
