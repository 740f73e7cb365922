"""Plain GETs of objects, recognised from the raw request: the case that benchmarks repeat a million times.

What is recognised here is answered as `reading.get_object` would answer it; whatever is not quite plain (a condition,
another subresource, a missing key, an unusual header) is left to the dialect's ordinary way.
"""

import re
from collections.abc import Collection

from bucketbench.testbed.model.objects import Buckets
from bucketbench.testbed.rest.addressing import address, bucket_in_host
from bucketbench.testbed.rest.errors import RestError
from bucketbench.testbed.s3.ranges import byte_range
from bucketbench.testbed.s3.reading import checksum_response_headers, object_head
from bucketbench.testbed.serving.dialect import Operation, PlainGet
from bucketbench.testbed.serving.messages import ContentSlice
from bucketbench.testbed.serving.ranges import content_range

__all__ = ["PlainGets"]

_WITHOUT_EFFECT = frozenset(
    b"accept accept-encoding amz-sdk-invocation-id amz-sdk-request authorization cache-control connection user-agent"
    b" x-amz-content-sha256 x-amz-date x-amz-security-token x-amz-user-agent".split()
)
"""Headers that change nothing in the answer to a GET. Any other but those that `find` names makes it not plain."""

_SIGNATURE = re.compile(rb"(?:(?:x-amz-[a-z-]+|awsaccesskeyid|signature|expires|x-id)=[^&]*(?:&|$))*", re.IGNORECASE)
"""The query of a presigned address (version 4 or 2), and what AWS SDKs append to name the operation: nothing in it
changes the answer."""

_KNOWN_PATHS_LIMIT = 100_000
"""Decoded paths kept; at 200 bytes each they take 20 MiB. *Source*: ours."""


class PlainGets:
    """Recognises plain GETs, path-style.

    Args:
        buckets: the model.
        base_hosts: host names before which a bucket's name may stand; such requests are not plain.
    """

    def __init__(self, buckets: Buckets, *, base_hosts: Collection[str]) -> None:
        self._buckets = buckets
        self._base_hosts = tuple(base_hosts)
        self._addresses: dict[bytes, tuple[str, str]] = {}
        self._path_style: dict[bytes, bool] = {}

    def find(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer for a request target and headers (names in lower case), or None where the request is not
        plain."""
        range_header, if_match, host, checksums = None, None, b"", False
        for name, value in headers:
            if name == b"range":
                range_header = value
            elif name == b"if-match":
                if_match = value
            elif name == b"x-amz-checksum-mode":
                checksums = value.upper() == b"ENABLED"
            elif name == b"host":
                host = value
            elif name not in _WITHOUT_EFFECT:
                return None
        if not self._is_path_style(host):
            return None
        path, _, query = target.partition(b"?")
        if query and not _SIGNATURE.fullmatch(query):
            return None
        names = self._addresses.get(path) or self._address(path)
        bucket = self._buckets.find(names[0]) if names else None
        found = bucket.objects.get(names[1]) if bucket and names else None
        if found is None or names is None or (if_match is not None and if_match != b'"%s"' % found.etag.encode()):
            return None
        size_bytes, span = found.size_bytes, None
        if range_header is not None:
            try:
                span = byte_range(range_header.decode("latin-1"), size_bytes)
            except RestError:
                return None
        start, stop = span or (0, size_bytes)
        if span is None:
            head = b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n" % (object_head(found), size_bytes)
            if checksums:
                head += b"".join(b"%s: %s\r\n" % header for header in checksum_response_headers(found))
        else:
            head = b"HTTP/1.1 206 Partial Content\r\n%scontent-range: %s\r\ncontent-length: %d\r\n" % (
                object_head(found),
                content_range(start, stop, size_bytes),
                stop - start,
            )
        kind = "get_object" if range_header is None else "get_object_range"
        operation = Operation(name=kind, bucket=names[0], key=names[1])
        return PlainGet(
            operation=operation, head=head, body=ContentSlice(content=found.content, start=start, stop=stop)
        )

    def _is_path_style(self, host: bytes) -> bool:
        known = self._path_style.get(host)
        if known is None:
            known = bucket_in_host(host.decode("latin-1"), self._base_hosts) is None
            if len(self._path_style) < _KNOWN_PATHS_LIMIT:
                self._path_style[host] = known
        return known

    def _address(self, path: bytes) -> tuple[str, str] | None:
        try:
            names = address(path, "", ())
        except RestError:
            return None
        if not path.startswith(b"/") or not names[1]:
            return None
        if len(self._addresses) >= _KNOWN_PATHS_LIMIT:
            self._addresses.clear()
        self._addresses[path] = names
        return names
