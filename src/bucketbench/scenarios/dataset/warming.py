"""A data set is read once before the first job, so that no client finds it colder than the next one does."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, urlsplit

from bucketbench.clients.protocol import Target

__all__ = ["WARMED_MEMORY_SHARE", "warm"]

WARMED_MEMORY_SHARE: Final = 0.5
"""Share of the machine's memory up to which a data set is read: a larger one would push itself out of the page cache.
*Source*: ours."""

_PIECE_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 120.0  # a disk that delivers less than a piece in that time fails the sweep anyway


def warm(target: Target, keys: Iterable[str]) -> None:
    """Have the testbed read its objects' files into the page cache, before any network model slows it.

    Args:
        target: a testbed's, which serves without credentials.
        keys: of the objects, relative to the target's prefix.

    Raises:
        OSError: the testbed does not answer, or has no such object.
    """
    assert target.endpoint is not None, "a testbed has an endpoint"
    address = urlsplit(target.endpoint)
    assert address.hostname is not None, "an endpoint has a host"
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context(cafile=target.ca_bundle)
        connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=_TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=_TIMEOUT_S)
    try:
        for key in keys:
            connection.request("GET", f"/{target.bucket}/{quote(target.prefix + key, safe='/-_.~')}")
            with connection.getresponse() as answer:
                while answer.read(_PIECE_BYTES):
                    pass
                if answer.status != http.client.OK:
                    raise OSError(f"reading {target.uri}{key} before the first job was answered {answer.status}")
    except http.client.HTTPException as error:
        raise OSError(f"reading {target.uri} before the first job failed: {error!r}") from error
    finally:
        connection.close()
