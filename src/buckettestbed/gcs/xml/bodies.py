"""Taking in the body of a PUT to the XML API: its length and its hashes verified."""

from collections.abc import Mapping

from buckettestbed.gcs.hashes import Stated, parse_hash, parse_hashes, verify
from buckettestbed.gcs.xml.errors import XmlApiError
from buckettestbed.model.contents import Received
from buckettestbed.rest.call import Call

__all__ = ["OBJECT_LIMIT_BYTES", "PART_LIMIT_BYTES", "receive_body", "stated_hashes"]

OBJECT_LIMIT_BYTES = 5 << 40
"""*Source*: Cloud Storage quotas and limits: the largest object has 5 TiB."""

PART_LIMIT_BYTES = 5 << 30
"""*Source*: Cloud Storage, XML API multipart uploads: the largest part has 5 GiB."""


def stated_hashes(headers: Mapping[str, str]) -> Stated:
    """Returns the digests that Content-MD5 and x-goog-hash state; raises InvalidHashError."""
    stated = parse_hashes(headers.get("x-goog-hash", ""))
    if (md5 := headers.get("content-md5")) is not None:
        stated |= {("md5", parse_hash("md5", md5))}
    return stated


async def receive_body(call: Call, *, limit_bytes: int = OBJECT_LIMIT_BYTES) -> Received:
    """Reads the request's body into the storage. Unlike S3 the API takes one of unknown length (chunked).

    Raises EntityTooLarge, IncompleteBody, InvalidHashError, HashMismatchError or, when the client goes away,
    DisconnectedError. Nothing is left behind then.
    """
    body, stated = call.request.body, stated_hashes(call.headers)
    content_sha256 = call.headers.get("x-goog-content-sha256", "")
    declared = body.length_bytes
    if declared is not None and declared > limit_bytes:
        raise XmlApiError("EntityTooLarge", f"{declared} bytes; at most {limit_bytes} are allowed.")
    algorithms = {algorithm for algorithm, _ in stated}
    incoming = call.buckets.receive(*algorithms, *(["sha256"] if len(content_sha256) == 64 else []))
    try:
        arrived = 0
        async for chunk in body.chunks():
            arrived += len(chunk)
            if arrived > limit_bytes:
                raise XmlApiError("EntityTooLarge", f"More than the {limit_bytes} bytes allowed arrived.")
            incoming.write(chunk)
        if declared is not None and arrived != declared:
            raise XmlApiError("IncompleteBody", f"{arrived} of the {declared} bytes declared arrived.")
        received = await incoming.finish()
    except BaseException:
        incoming.discard()
        raise
    try:
        verify(stated, received.digests)
        if "sha256" in received.digests and received.digests["sha256"].hex() != content_sha256.lower():
            raise XmlApiError("BadDigest", "The body does not have the SHA-256 that x-goog-content-sha256 states.")
    except BaseException:
        received.content.release()
        raise
    return received
