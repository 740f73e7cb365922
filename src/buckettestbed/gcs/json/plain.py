"""Plain downloads, recognised from the raw request: the case that benchmarks repeat a million times.

What is recognised here is answered as `reading.get_object` would answer it; whatever is not quite plain (a condition
that does not hold, a missing object, an unusual parameter or header) is left to the ordinary way.
"""

from collections.abc import Collection

from buckettestbed.gcs.json.reading import MEDIA_HEADERS
from buckettestbed.model.objects import StoredObject
from buckettestbed.operations.gcs_json import parse_path
from buckettestbed.rest.plain import PlainGets, plain_answer
from buckettestbed.serving.dialect import PlainGet

__all__ = ["PlainDownloads"]

_PATHS = (b"/download/storage/v1/b/", b"/storage/v1/b/")

_WITHOUT_EFFECT = frozenset(
    b"accept accept-encoding authorization cache-control connection content-type host user-agent x-client-data"
    b" x-goog-api-client x-goog-gcs-idempotency-token x-goog-request-params x-goog-user-project".split()
)
"""Headers that change nothing in the answer to a download. Any other but Range makes it not plain."""

_IGNORED = frozenset([b"userProject", b"prettyPrint", b"projection", b"quotaUser"])
"""Parameters that change nothing in the answer to a download."""


class PlainDownloads(PlainGets):
    """Recognises plain downloads."""

    def find(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer, or None where the request is not plain."""
        if not target.startswith(_PATHS):
            return None
        range_header = None
        for name, value in headers:
            if name == b"range" and range_header is None:
                range_header = value
            elif name not in _WITHOUT_EFFECT:
                return None
        path, _, query = target.partition(b"?")
        named = self.named(path)
        if named is None or not _is_plain(query, named[1]):
            return None
        if "content-encoding" in named[1].attributes.headers:  # It may have to be decompressed.
            return None
        return plain_answer(*named, MEDIA_HEADERS.lines(named[1]), range_header)

    def parse(self, path: bytes) -> tuple[str, str] | None:
        """Returns the bucket's name and the key in a path, or None where it is no object's."""
        address = parse_path(path)
        return (address.bucket, address.key) if address is not None and address.form == "b/B/o/K" else None


def _is_plain(query: bytes, found: StoredObject) -> bool:
    """Returns whether a query asks for the bytes of the object as it is, on conditions that hold."""
    if query == b"alt=media":
        return True
    seen: set[bytes] = set()
    is_media = False
    for item in query.split(b"&"):
        name, _, value = item.partition(b"=")
        if name in seen:
            return False
        seen.add(name)
        if name == b"alt":
            is_media = value == b"media"
        elif name in (b"generation", b"ifGenerationMatch"):
            if value != b"%d" % found.generation:
                return False
        elif name not in _IGNORED:
            return False
    return is_media
