"""Objects' metadata and bytes over the JSON API."""

from email.utils import formatdate

from buckettestbed.gcs.hashes import hash_header
from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.resources import CONTENT_FIELDS, object_etag
from buckettestbed.gcs.preconditions import NotModifiedError
from buckettestbed.gcs.transcoding import decompressed, is_transcoded
from buckettestbed.model.objects import Attributes, StoredObject
from buckettestbed.rest.attributes import ObjectHeaders, described_attributes
from buckettestbed.serving.messages import ContentSlice, Response
from buckettestbed.serving.ranges import UnsatisfiableRangeError, byte_range, content_range

__all__ = ["MEDIA_HEADERS", "get_metadata", "get_object"]


async def get_metadata(call: Call) -> Response:
    """Answers with an object's resource."""
    bucket, found = call.bucket(), call.found()
    _check_read(call, found)
    return call.answer_with(bucket, found)


def _check_read(call: Call, found: StoredObject) -> None:
    """Raises UnmetConditionError, or JsonError (304, 412) where a condition on reading does not hold."""
    etag = object_etag(found)
    if_match, if_none_match = call.headers.get("if-match"), call.headers.get("if-none-match")
    try:
        call.conditions.check_read(found)
    except NotModifiedError:
        raise JsonError(304, headers=[(b"etag", etag.encode())]) from None
    if if_match is not None and not _matches(if_match, etag):
        raise JsonError(412, parameter="If-Match")
    if if_none_match is not None and _matches(if_none_match, etag):
        raise JsonError(304, headers=[(b"etag", etag.encode())])


def _matches(header: str, etag: str) -> bool:
    return header.strip() == "*" or etag in (tag.strip().removeprefix("W/").strip('"') for tag in header.split(","))


def _object_headers(found: StoredObject) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"etag", object_etag(found).encode()),
        (b"last-modified", formatdate(found.modified_s, usegmt=True).encode()),
        (b"x-goog-generation", b"%d" % found.generation),
        (b"x-goog-metageneration", b"%d" % found.metageneration),
        (b"x-goog-hash", hash_header(found)),
        (b"x-goog-storage-class", found.attributes.storage_class.encode()),
        (b"x-goog-stored-content-length", b"%d" % found.size_bytes),
        *described_attributes(
            Attributes(headers=found.attributes.headers),
            kept=tuple(CONTENT_FIELDS.values()),
            default_type="application/octet-stream",
            metadata_prefix="",
        ),
    ]
    encoding = next((value for name, value in headers if name == b"content-encoding"), b"identity")
    headers.append((b"x-goog-stored-content-encoding", encoding))
    return headers


MEDIA_HEADERS = ObjectHeaders("gcs-json", _object_headers)
"""Of every answer with an object's bytes."""


async def get_object(call: Call) -> Response:
    """Answers with an object's bytes, whole or by range."""
    found = call.found()
    _check_read(call, found)
    if is_transcoded(found, call.headers):
        return await decompressed(found, MEDIA_HEADERS.headers(found))
    range_header = call.headers.get("range")
    if range_header is not None and call.headers.get("if-range", object_etag(found)).strip('"') != object_etag(found):
        range_header = None
    try:
        span = None if range_header is None else byte_range(range_header, found.size_bytes)
    except UnsatisfiableRangeError:
        raise JsonError(416, headers=[(b"content-range", b"bytes */%d" % found.size_bytes)]) from None
    start, stop = span or (0, found.size_bytes)
    headers = list(MEDIA_HEADERS.headers(found))
    if span is not None:
        headers.append((b"content-range", content_range(start, stop, found.size_bytes)))
    body = ContentSlice(content=found.content, start=start, stop=stop)
    return Response(status=200 if span is None else 206, headers=headers, body=body)
