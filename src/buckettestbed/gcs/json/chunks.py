"""What a request to a resumable session says it carries. *Source*: Cloud Storage documentation, resumable uploads."""

import re
from dataclasses import dataclass

from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.serving.messages import Request

__all__ = ["Chunk", "parse_chunk"]

_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19}|\*)|\*)/(?:(\d{1,19})|\*)\Z", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """What a request says it carries: `start` to before `stop` of `total_bytes`, each None where it is not known.

    Where only the start is known, the body is all that is left.
    """

    start: int | None
    stop: int | None
    total_bytes: int | None

    @property
    def is_query(self) -> bool:
        """Whether it carries nothing."""
        return self.start is None


def parse_chunk(request: Request) -> Chunk:
    """Returns what Content-Range says; a request without one carries everything. Raises JsonError (400)."""
    header = request.headers.get("content-range")
    if header is None:
        return Chunk(start=0, stop=request.body.length_bytes, total_bytes=request.body.length_bytes)
    match = _RANGE.match(header.strip())
    if match is None:
        raise JsonError(400, f"Failed to parse Content-Range header {header[:100]!r}.", parameter="Content-Range")
    first, last, total = match.groups()
    total_bytes = None if total is None else int(total)
    if first is None:
        return Chunk(start=None, stop=None, total_bytes=total_bytes)
    if last == "*":
        return Chunk(start=int(first), stop=None, total_bytes=total_bytes)
    start, stop = int(first), int(last) + 1
    if stop <= start or (total_bytes is not None and stop > total_bytes):
        raise JsonError(400, f"Content-Range {header[:100]!r} is no range of bytes.", parameter="Content-Range")
    length_bytes = request.body.length_bytes
    if length_bytes is not None and length_bytes != stop - start:
        raise JsonError(400, f"Content-Range {header[:100]!r} has another length than the body, {length_bytes} bytes.")
    return Chunk(start=start, stop=stop, total_bytes=total_bytes)
