"""Objects stored compressed, sent decompressed to clients that do not take gzip.

*Source*: Cloud Storage documentation, transcoding of gzip-compressed files: never with `Cache-Control: no-transform`,
and the whole object whatever the range asked for.
"""

import asyncio
import zlib
from collections.abc import Mapping, Sequence

from buckettestbed.model.contents import Content, pieces
from buckettestbed.model.objects import StoredObject
from buckettestbed.serving.messages import ContentSlice, Response

__all__ = ["decompressed", "is_transcoded"]

_FIRST_BYTE = 0x1F
"""Of every member. *Source*: RFC 1952, 2.3.1."""


def is_transcoded(found: StoredObject, headers: Mapping[str, str]) -> bool:
    """Returns whether a GET with these headers is answered with the decompressed object."""
    stated = found.attributes.headers
    return (
        stated.get("content-encoding", "").lower() == "gzip"
        and "no-transform" not in stated.get("cache-control", "").lower()
        and "gzip" not in headers.get("accept-encoding", "").lower()
    )


async def decompressed(found: StoredObject, headers: Sequence[tuple[bytes, bytes]]) -> Response:
    """Returns the answer with the decompressed whole, or with the object as it is stored where that is no gzip.

    Args:
        found: the object.
        headers: those that an answer with the object has.
    """
    body = await asyncio.to_thread(_gunzip, found.content)
    if body is None:
        return Response(
            status=200, headers=list(headers), body=ContentSlice(content=found.content, start=0, stop=found.size_bytes)
        )
    kept = [header for header in headers if header[0] != b"content-encoding"]
    return Response(status=200, headers=[*kept, (b"warning", b"214 UploadServer gunzipped")], body=body)


def _gunzip(content: Content) -> bytes | None:
    """Returns the decompressed bytes of all members, which follow one another (RFC 1952, 2.2), or None where the
    content is no gzip. What follows the last member and does not begin like one is left out, as gzip itself does."""
    out: list[bytes] = []
    member, ended = None, False
    try:
        for piece in pieces(content, 0, content.size_bytes):
            rest: bytes | memoryview = piece
            while len(rest):
                if member is None:
                    if ended and rest[0] != _FIRST_BYTE:
                        return b"".join(out)
                    member = zlib.decompressobj(wbits=31)
                out.append(member.decompress(rest))
                rest = member.unused_data
                if member.eof:
                    member, ended = None, True
    except zlib.error:
        return None
    return b"".join(out) if ended and member is None else None
