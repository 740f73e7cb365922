"""Decoding of aws-chunked bodies, signed or not, with or without trailing checksums.

    size-in-hex[;chunk-signature=…]\\r\\n bytes \\r\\n … 0[;chunk-signature=…]\\r\\n [trailer:value\\r\\n]… \\r\\n

Signatures are verified where credentials are required. *Source*: Amazon S3 API reference, signature calculations for
chunked uploads, with trailing headers.
"""

import re

from buckettestbed.s3.errors import S3Error
from buckettestbed.serving.messages import ChunkSignatures

__all__ = ["AwsChunkedDecoder"]

_LINE_LIMIT_BYTES = 8192
"""A longer line is an error, not a reason to keep buffering. *Source*: ours; a chunk's line is under 120 bytes."""

_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(?:;.*)?\Z")
_CHUNK_SIGNATURE = re.compile(rb";\s*chunk-signature=([0-9a-f]{64})\s*(?:;|\Z)")
_TRAILER_SIGNATURE = "x-amz-trailer-signature"


class AwsChunkedDecoder:
    """Turns an aws-chunked body, fed in any pieces, back into the object's bytes. Raises MalformedTrailerError, and
    what `signatures` raises.

    `trailers` has the trailing headers, names in lower case, once `complete` is true.

    Args:
        signatures: checks the chunks' signatures; None takes any.
    """

    def __init__(self, signatures: ChunkSignatures | None = None) -> None:
        self.trailers: dict[str, str] = {}
        self.complete = False
        self._signatures = signatures
        self._signature: str | None = None
        self._line = bytearray()
        self._left_bytes = 0
        self._state = self._size_line

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the pieces of the object that `data` completes."""
        pieces: list[bytes] = []
        at = 0
        while at < len(data):
            if self._left_bytes:
                piece = data[at : at + self._left_bytes]
                pieces.append(piece)
                if self._signatures is not None:
                    self._signatures.update(piece)
                self._left_bytes -= len(piece)
                at += len(piece)
                continue
            end = data.find(b"\n", at)
            self._line += data[at : end + 1] if end >= 0 else data[at:]
            at = end + 1 if end >= 0 else len(data)
            if len(self._line) > _LINE_LIMIT_BYTES:
                raise S3Error(
                    "MalformedTrailerError", f"A line of the aws-chunked body is longer than {_LINE_LIMIT_BYTES} bytes."
                )
            if end >= 0:
                line = bytes(self._line).rstrip(b"\r\n")
                self._line.clear()
                self._state(line)
        return pieces

    def _size_line(self, line: bytes) -> None:
        match = _SIZE.match(line)
        if match is None:
            raise S3Error("MalformedTrailerError", f"Expected a chunk size in hexadecimal, got {line[:40]!r}.")
        self._left_bytes = int(match.group(1), 16)
        self._state = self._end_of_chunk if self._left_bytes else self._trailer_line
        if self._signatures is not None:
            signature = _CHUNK_SIGNATURE.search(line)
            self._signature = signature.group(1).decode() if signature else None
            if not self._left_bytes:
                self._signatures.end_chunk(self._signature)

    def _end_of_chunk(self, line: bytes) -> None:
        if line:
            raise S3Error("MalformedTrailerError", f"A chunk is longer than its declared size: {line[:40]!r} follows.")
        if self._signatures is not None:
            self._signatures.end_chunk(self._signature)
        self._state = self._size_line

    def _trailer_line(self, line: bytes) -> None:
        if not line:
            if self._signatures is not None:
                signed = (f"{name}:{value}\n" for name, value in self.trailers.items() if name != _TRAILER_SIGNATURE)
                self._signatures.end_trailer("".join(signed).encode("latin-1"), self.trailers.get(_TRAILER_SIGNATURE))
            self.complete = True
            self._state = self._nothing_more
            return
        name, colon, value = line.partition(b":")
        if not colon:
            raise S3Error("MalformedTrailerError", f"Expected a trailing header, got {line[:40]!r}.")
        self.trailers[name.decode("latin-1").strip().lower()] = value.decode("latin-1").strip()

    def _nothing_more(self, line: bytes) -> None:
        if line:
            raise S3Error("MalformedTrailerError", f"Bytes follow the end of the aws-chunked body: {line[:40]!r}.")
