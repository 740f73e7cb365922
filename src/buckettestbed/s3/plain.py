"""Plain GETs of objects, recognised from the raw request: the case that benchmarks repeat a million times.

What is recognised here is answered as `reading.get_object` would answer it; whatever is not quite plain (a condition,
another subresource, a missing key, an unusual header) is left to the dialect's ordinary way.
"""

import re
from collections.abc import Collection

from buckettestbed.operations.s3 import SIGNATURE_PARAMETERS
from buckettestbed.rest.plain import PlainGets, plain_answer
from buckettestbed.s3.reading import OBJECT_HEADERS, checksum_response_headers
from buckettestbed.serving.dialect import PlainGet

__all__ = ["S3PlainGets"]

_WITHOUT_EFFECT = frozenset(
    b"accept accept-encoding amz-sdk-invocation-id amz-sdk-request authorization cache-control connection user-agent"
    b" x-amz-content-sha256 x-amz-date x-amz-security-token x-amz-user-agent".split()
)
"""Headers that change nothing in the answer to a GET. Any other but those that `find` names makes it not plain."""

_SIGNATURE = re.compile(
    rb"(?:(?:%s)=[^&]*(?:&|$))*" % b"|".join(re.escape(name.encode()) for name in sorted(SIGNATURE_PARAMETERS)),
    re.IGNORECASE,
)
"""The query of a presigned address (version 4 or 2), and what AWS SDKs append to name the operation: nothing in it
changes the answer."""


class S3PlainGets(PlainGets):
    """Recognises them as S3 has them."""

    def find(self, target: bytes, headers: Collection[tuple[bytes, bytes]]) -> PlainGet | None:
        """Returns the answer, or None where the request is not plain."""
        range_header, if_match, host, checksums = None, None, b"", False
        for name, value in headers:
            if name == b"range" and range_header is None:
                range_header = value
            elif name == b"if-match" and if_match is None:
                if_match = value
            elif name == b"x-amz-checksum-mode":
                checksums = value.upper() == b"ENABLED"
            elif name == b"host":
                host = value
            elif name not in _WITHOUT_EFFECT:
                return None
        path, _, query = target.partition(b"?")
        if query and not _SIGNATURE.fullmatch(query):
            return None
        names = self.object(host, path)
        if names is None:
            return None
        bucket, found = names
        if if_match is not None and if_match != b'"%s"' % found.etag.encode():
            return None
        whole_head = b""
        if checksums:
            whole_head = b"".join(b"%s: %s\r\n" % header for header in checksum_response_headers(found))
        return plain_answer(bucket, found, OBJECT_HEADERS.lines(found), range_header, whole_head=whole_head)
