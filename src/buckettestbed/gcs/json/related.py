"""Bodies of `multipart/related`: an object's metadata, then its bytes, taken apart while they arrive.

The standard library's `email` needs the whole in memory, which a checkpoint of gigabytes forbids, and the streaming
parsers of forms on the package index want CRLF and a Content-Disposition in each part, while real clients send neither
(gcsfs ends lines with LF alone). So this is our own, for exactly two parts. *Source*: RFC 2387 and RFC 2046 section
5.1; Cloud Storage documentation, upload an object with metadata.
"""

from collections.abc import Callable
from email.message import Message

from buckettestbed.gcs.json.errors import JsonError

__all__ = ["RelatedParser", "boundary_of"]

_HEAD_LIMIT_BYTES = 64 << 10
"""The most that a preamble or a part's headers may take. *Source*: ours."""


def boundary_of(content_type: str) -> bytes:
    """Returns the boundary that a Content-Type header states; raises JsonError (400) where it is no multipart."""
    message = Message()
    message["content-type"] = content_type
    boundary = message.get_param("boundary")
    if message.get_content_maintype() != "multipart" or not isinstance(boundary, str) or not boundary:
        raise JsonError(400, f"A multipart body needs a boundary in its Content-Type, which is {content_type[:200]!r}.")
    return boundary.encode("latin-1", errors="replace")


class RelatedParser:
    """Takes a body apart: feed it, and it returns the bytes of the second part.

    Lines end as the first boundary's line does, in CRLF or in LF, so that a content that ends in CR keeps it.

    Args:
        boundary: as the Content-Type states it.
        metadata_limit_bytes: the most that the first part may have.

    `metadata` is the first part once bytes of the second arrive, `content_type` what the second part's headers state,
    and `complete` tells whether the closing boundary was seen.
    """

    def __init__(self, boundary: bytes, *, metadata_limit_bytes: int) -> None:
        self.metadata: bytes | None = None
        self.content_type = ""
        self._dashes = b"--" + boundary
        self._delimiter = b""
        self._limit_bytes = metadata_limit_bytes
        self._buffer = b""
        self._step: Callable[[list[bytes]], bool] = self._find_first

    @property
    def complete(self) -> bool:
        """Whether both parts have arrived whole."""
        return self._step == self._skip

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes of the body; returns those of the second part. Raises JsonError (400)."""
        self._buffer = self._buffer + chunk if self._buffer else chunk
        out: list[bytes] = []
        while self._step(out):  # One step after another, until one needs more bytes.
            pass
        return out

    def _find_first(self, _: list[bytes]) -> bool:
        """Looks for the first boundary, and how its line ends."""
        start = self._buffer.find(self._dashes)
        end = self._buffer.find(b"\n", start) if start >= 0 else -1
        if end < 0:
            self._bounded(_HEAD_LIMIT_BYTES, "the first boundary")
            return False
        line_end = b"\r\n" if self._buffer[end - 1 : end] == b"\r" else b"\n"
        self._delimiter = line_end + self._dashes
        self._buffer = self._buffer[end + 1 :]
        self._step = self._read_head
        return True

    def _read_head(self, _: list[bytes]) -> bool:
        """Reads the headers of a part, up to an empty line."""
        at = 0
        content_type = ""
        while True:
            end = self._buffer.find(b"\n", at)
            if end < 0:
                self._bounded(_HEAD_LIMIT_BYTES, "a part's headers")
                return False
            line = self._buffer[at:end].strip()
            at = end + 1
            if not line:
                break
            name, _colon, value = line.partition(b":")
            if name.strip().lower() == b"content-type":
                content_type = value.strip().decode("latin-1")
        self._buffer = self._buffer[at:]
        if self.metadata is None:
            self._step = self._read_metadata
        else:
            self.content_type = content_type
            self._step = self._read_media
        return True

    def _read_metadata(self, _: list[bytes]) -> bool:
        """Collects the first part."""
        end = self._buffer.find(self._delimiter)
        line = self._buffer.find(b"\n", end + len(self._delimiter)) if end >= 0 else -1
        if line < 0:
            self._bounded(self._limit_bytes + _HEAD_LIMIT_BYTES, "the metadata")
            return False
        if self._buffer[end + len(self._delimiter) :].startswith(b"--"):
            raise JsonError(400, "The multipart body has one part; expected the metadata, then the object's bytes.")
        self.metadata = self._buffer[:end]
        self._buffer = self._buffer[line + 1 :]
        self._step = self._read_head
        return True

    def _read_media(self, out: list[bytes]) -> bool:
        """Passes on the second part, save what might be the beginning of a boundary."""
        end = self._buffer.find(self._delimiter)
        after = end + len(self._delimiter)
        if end < 0:
            keep = len(self._delimiter) - 1
            if len(self._buffer) > keep:
                out.append(self._buffer[:-keep])
                self._buffer = self._buffer[-keep:]
            return False
        if len(self._buffer) < after + 2:
            if end:
                out.append(self._buffer[:end])
                self._buffer = self._buffer[end:]
            return False
        if self._buffer[after : after + 2] != b"--":
            raise JsonError(400, "The multipart body has more than two parts.")
        if end:
            out.append(self._buffer[:end])
        self._buffer = b""
        self._step = self._skip
        return False

    def _skip(self, _: list[bytes]) -> bool:
        """Leaves out what follows the closing boundary."""
        self._buffer = b""
        return False

    def _bounded(self, limit_bytes: int, what: str) -> None:
        if len(self._buffer) > limit_bytes:
            raise JsonError(400, f"The multipart body has more than {limit_bytes} bytes before {what} ends.")
