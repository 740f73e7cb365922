"""Plain GETs of objects in the XML API, recognised from the raw request.

What is recognised here is answered as `reading.get_object` would answer it; whatever is not quite plain is left to the
API's ordinary way.
"""

import re
from collections.abc import Collection

from buckettestbed.gcs.xml.headers import OBJECT_HEADERS
from buckettestbed.model.objects import StoredObject
from buckettestbed.operations.gcs_xml import SIGNATURE_PARAMETERS
from buckettestbed.rest.plain import PlainGets, plain_answer
from buckettestbed.serving.dialect import PlainGet

__all__ = ["XmlPlainGets"]

_WITHOUT_EFFECT = frozenset(
    b"accept accept-encoding authorization cache-control connection user-agent x-goog-api-client x-goog-content-sha256"
    b" x-goog-date x-goog-gcs-idempotency-token x-goog-user-project".split()
)
"""Headers that change nothing in the answer to a GET. Any other but those that `find` names makes it not plain."""

_QUERY = re.compile(
    rb"(?:(?:%s|(?-i:generation)=(?P<generation>[0-9]+))(?:=[^&]*)?(?:&|$))*"
    % b"|".join(re.escape(name.encode()) for name in sorted(SIGNATURE_PARAMETERS)),
    re.IGNORECASE,
)
"""The query of a signed address (version 4 or 2), which changes nothing in the answer, and a generation."""


class XmlPlainGets(PlainGets):
    """Recognises them as the XML API has them."""

    def find(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer, or None where the request is not plain."""
        range_header, if_match, generation_match, host = None, None, None, b""
        for name, value in headers:
            if name == b"range" and range_header is None:
                range_header = value
            elif name == b"host":
                host = value
            elif name == b"if-match" and if_match is None:
                if_match = value
            elif name == b"x-goog-if-generation-match" and generation_match is None:
                generation_match = value
            elif name not in _WITHOUT_EFFECT:
                return None
        path, _, query = target.partition(b"?")
        generation: bytes | None = None
        if query:
            matched = _QUERY.fullmatch(query)
            if matched is None or query.count(b"generation=") > 1:
                return None
            generation = matched["generation"]
        names = self.object(host, path)
        if names is None or not _current(names[1], if_match, generation_match, generation):
            return None
        if "content-encoding" in names[1].attributes.headers:  # It may have to be decompressed.
            return None
        return plain_answer(names[0], names[1], OBJECT_HEADERS.lines(names[1]), range_header)


def _current(
    found: StoredObject, if_match: bytes | None, generation_match: bytes | None, generation: bytes | None
) -> bool:
    """Returns whether the object is the one that a request is about, its conditions in their plainest form."""
    if if_match is not None and if_match != b'"%s"' % found.etag.encode():
        return False
    if generation_match is None and generation is None:
        return True
    current = b"%d" % found.generation
    return generation_match in (None, current) and generation in (None, current)
