"""What recognising a plain GET from the raw request needs in either dialect: its object, found fast, and its answer."""

from abc import ABC, abstractmethod
from collections.abc import Collection

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.addressing import address, bucket_in_host
from buckettestbed.rest.errors import RestError
from buckettestbed.serving.dialect import Operation, PlainGet
from buckettestbed.serving.messages import ContentSlice
from buckettestbed.serving.ranges import UnsatisfiableRangeError, byte_range, content_range

__all__ = ["PlainGets", "plain_answer"]

_KNOWN_PATHS_LIMIT = 100_000
"""Decoded paths kept; at 200 bytes each they take 20 MiB. *Source*: ours."""


class PlainGets(ABC):
    """Recognises plain GETs of path-style requests, each path decoded once.

    Args:
        buckets: the model.
        base_hosts: host names before which a bucket's name may stand; such requests are not path-style.
    """

    def __init__(self, buckets: Buckets, *, base_hosts: Collection[str] = ()) -> None:
        self._buckets = buckets
        self._base_hosts = tuple(base_hosts)
        self._addresses: dict[bytes, tuple[str, str]] = {}
        self._path_style: dict[bytes, bool] = {}

    @abstractmethod
    def find(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer for a request target and headers (names in lower case), or None where the request is not
        plain."""

    def object(self, host: bytes, path: bytes) -> tuple[str, StoredObject] | None:
        """Returns the bucket's name and the object, or None where there is none or the request is not path-style."""
        return self.named(path) if self._is_path_style(host) else None

    def named(self, path: bytes) -> tuple[str, StoredObject] | None:
        """Returns the bucket's name and the object that a path names, or None."""
        names = self._addresses.get(path) or self._remembered(path)
        bucket = self._buckets.find(names[0]) if names else None
        found = bucket.objects.get(names[1]) if bucket and names else None
        return None if found is None or names is None else (names[0], found)

    def _is_path_style(self, host: bytes) -> bool:
        known = self._path_style.get(host)
        if known is None:
            known = bucket_in_host(host.decode("latin-1"), self._base_hosts) is None
            if len(self._path_style) < _KNOWN_PATHS_LIMIT:
                self._path_style[host] = known
        return known

    def parse(self, path: bytes) -> tuple[str, str] | None:
        """Returns the bucket's name and the key in a path, or None where it has not both."""
        try:
            names = address(path, "", ())
        except RestError:
            return None
        return names if path.startswith(b"/") and names[1] else None

    def _remembered(self, path: bytes) -> tuple[str, str] | None:
        names = self.parse(path)
        if names is None:
            return None
        if len(self._addresses) >= _KNOWN_PATHS_LIMIT:
            self._addresses.clear()
        self._addresses[path] = names
        return names


def plain_answer(
    bucket: str, found: StoredObject, head: bytes, range_header: bytes | None, *, whole_head: bytes = b""
) -> PlainGet | None:
    """Returns the answer to a plain GET, or None where its range holds no byte.

    Args:
        bucket: the bucket's name.
        found: the object.
        head: lines of headers that each answer has, ended.
        range_header: the Range header, or None.
        whole_head: lines that only an answer with the whole object has.
    """
    size_bytes, span = found.size_bytes, None
    if range_header is not None:
        try:
            span = byte_range(range_header.decode("latin-1"), size_bytes)
        except UnsatisfiableRangeError:
            return None
    start, stop = span or (0, size_bytes)
    if span is None:
        head = b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n%s" % (head, size_bytes, whole_head)
    else:
        head = b"HTTP/1.1 206 Partial Content\r\n%scontent-range: %s\r\ncontent-length: %d\r\n" % (
            head,
            content_range(start, stop, size_bytes),
            stop - start,
        )
    kind = "get_object" if range_header is None else "get_object_range"
    operation = Operation(name=kind, bucket=bucket, key=found.key)
    return PlainGet(operation=operation, head=head, body=ContentSlice(content=found.content, start=start, stop=stop))
