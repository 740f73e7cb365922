"""Taking in the body of a PUT: plain or aws-chunked, its length, its MD5 and its checksums verified."""

import base64
from dataclasses import dataclass

from buckettestbed.model.contents import Received
from buckettestbed.rest.call import Call
from buckettestbed.s3.aws_chunked import AwsChunkedDecoder
from buckettestbed.s3.checksums import ALGORITHMS, DEFAULT_CHECKSUM, checksum_headers, content_md5, verify
from buckettestbed.s3.errors import S3Error

__all__ = ["PART_LIMIT_BYTES", "ReceivedBody", "receive_body"]

PART_LIMIT_BYTES = 5 << 30
"""The largest single PUT and the largest part. *Source*: Amazon S3 user guide, multipart upload limits: 5 GiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedBody:
    """A body that arrived whole and passed its checks: the content, its ETag, and the checksums to keep,
    those that were sent or the one computed because none was."""

    received: Received
    etag: str
    checksums: dict[str, str]


async def receive_body(call: Call, *, default_checksum: str = DEFAULT_CHECKSUM) -> ReceivedBody:
    """Reads the request's body into the storage.

    Args:
        call: the request.
        default_checksum: what to compute where the client sends no checksum.

    Raises MissingContentLength, EntityTooLarge, IncompleteBody, InvalidDigest, BadDigest, MalformedTrailerError or,
    when the client goes away, DisconnectedError. Nothing is left behind then.
    """
    headers, body = call.headers, call.request.body
    encoded_as = headers.get("x-amz-content-sha256", "")
    chunked = encoded_as.startswith("STREAMING-") or _is_unsigned_chunked(call)
    expected = _declared_length_bytes(call, chunked)
    md5, sent = content_md5(headers), checksum_headers(headers)
    trailing = [
        name.strip().lower().removeprefix("x-amz-checksum-") for name in headers.get("x-amz-trailer", "").split(",")
    ]
    wanted = [name for name in {*sent, *trailing} if name in ALGORITHMS] or [default_checksum]
    body_sha256 = encoded_as if len(encoded_as) == 64 else None
    if body_sha256 is not None:
        wanted.append("sha256")
    if md5 is not None:
        wanted.append("md5")

    decoder = AwsChunkedDecoder(call.request.chunk_signatures) if chunked else None
    incoming = call.buckets.receive(*wanted)
    try:
        arrived = 0
        async for chunk in body.chunks():
            for piece in decoder.feed(chunk) if decoder else (chunk,):
                arrived += len(piece)
                if arrived > expected:
                    raise S3Error("IncompleteBody", f"More than the {expected} bytes declared arrived.")
                incoming.write(piece)
        if arrived != expected or (decoder is not None and not decoder.complete):
            raise S3Error("IncompleteBody", f"{arrived} of the {expected} bytes declared arrived.")
        trailed = checksum_headers(decoder.trailers) if decoder is not None else {}
        missing = [name for name in trailing if name in ALGORITHMS and name not in trailed]
        if missing:
            raise S3Error("MalformedTrailerError", f"x-amz-trailer announces {missing[0]}, which did not arrive.")
        if strangers := trailed.keys() - set(trailing):  # Which nobody computed while the body arrived.
            raise S3Error("MalformedTrailerError", f"x-amz-trailer does not announce {min(strangers)}, which arrived.")
        received = await incoming.finish()
    except BaseException:
        incoming.discard()
        raise
    try:
        if md5 is not None and md5 != received.digests["md5"]:
            raise S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.")
        if body_sha256 is not None and received.digests["sha256"].hex() != body_sha256:
            raise S3Error("XAmzContentSHA256Mismatch")
        verify(sent, received.digests)
        verify(trailed, received.digests)
    except BaseException:
        received.content.release()
        raise
    checksums = sent | trailed or {default_checksum: base64.b64encode(received.digests[default_checksum]).decode()}
    return ReceivedBody(received=received, etag=call.buckets.etag(received), checksums=checksums)


def _is_unsigned_chunked(call: Call) -> bool:
    """Returns whether an anonymous sender's body is aws-chunked, of which then no x-amz-content-sha256 tells. The
    encoding alone says nothing: S3 takes the body as it is."""
    encoding = call.headers.get("content-encoding", "").lower()
    return "aws-chunked" in encoding and "x-amz-decoded-content-length" in call.headers


def _declared_length_bytes(call: Call, chunked: bool) -> int:
    """Returns the object's length that the headers state."""
    headers, body = call.headers, call.request.body
    if not chunked and "chunked" in headers.get("transfer-encoding", "").lower():
        raise S3Error(
            "NotImplemented", "S3 takes no Transfer-Encoding: chunked.", fields={"Header": "Transfer-Encoding"}
        )
    if chunked:
        declared = headers.get("x-amz-decoded-content-length", "")
        if not (declared.isascii() and declared.isdecimal()):
            raise S3Error("MissingContentLength", "An aws-chunked body needs x-amz-decoded-content-length.")
        length_bytes = int(declared[:20])
    elif body.length_bytes is None:
        raise S3Error("MissingContentLength")
    else:
        length_bytes = body.length_bytes
    if length_bytes > PART_LIMIT_BYTES:
        raise S3Error(
            "EntityTooLarge", fields={"ProposedSize": str(length_bytes), "MaxSizeAllowed": str(PART_LIMIT_BYTES)}
        )
    return length_bytes
