"""Decoding of aws-chunked bodies, signed or not, with or without trailing checksums.

    size-in-hex[;chunk-signature=…]\\r\\n bytes \\r\\n … 0[;chunk-signature=…]\\r\\n [trailer:value\\r\\n]… \\r\\n

Signatures are not verified. *Source*: Amazon S3 API reference, signature calculations for chunked uploads, with
trailing headers.
"""

import re

from bucketbench.testbed.s3.errors import S3Error

__all__ = ["AwsChunkedDecoder"]

_LINE_LIMIT_BYTES = 8192
"""A longer line is an error, not a reason to keep buffering. *Source*: ours; a chunk's line is under 120 bytes."""

_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(?:;.*)?\Z")


class AwsChunkedDecoder:
    """Turns an aws-chunked body, fed in any pieces, back into the object's bytes. Raises MalformedTrailerError.

    `trailers` has the trailing headers, names in lower case, once `complete` is true.
    """

    def __init__(self) -> None:
        self.trailers: dict[str, str] = {}
        self.complete = False
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

    def _end_of_chunk(self, line: bytes) -> None:
        if line:
            raise S3Error("MalformedTrailerError", f"A chunk is longer than its declared size: {line[:40]!r} follows.")
        self._state = self._size_line

    def _trailer_line(self, line: bytes) -> None:
        if not line:
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
