"""GET and HEAD of objects in the XML API."""

from buckettestbed.gcs.preconditions import NotModifiedError
from buckettestbed.gcs.transcoding import decompressed, is_transcoded
from buckettestbed.gcs.xml.conditions import conditions, found_object
from buckettestbed.gcs.xml.errors import XmlApiError
from buckettestbed.gcs.xml.headers import OBJECT_HEADERS
from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.call import Call
from buckettestbed.rest.conditions import check_read, range_applies
from buckettestbed.rest.errors import RestError
from buckettestbed.serving.messages import ContentSlice, Response
from buckettestbed.serving.ranges import UnsatisfiableRangeError, byte_range, content_range

__all__ = ["get_object"]

_OVERRIDES = {
    "response-content-type": b"content-type",
    "response-content-disposition": b"content-disposition",
}
"""*Source*: Cloud Storage XML API reference, query string parameters."""


async def get_object(call: Call) -> Response:
    """Answers GET, whole or by range, and HEAD."""
    found = found_object(call)
    if _not_modified(call, found):
        validators = (b"etag", b"last-modified", b"cache-control", b"x-goog-generation", b"x-goog-metageneration")
        return Response(status=304, headers=[(n, v) for n, v in OBJECT_HEADERS.headers(found) if n in validators])
    headers = list(OBJECT_HEADERS.headers(found))
    for parameter, name in _OVERRIDES.items():
        if parameter in call.query:
            headers = [*((n, v) for n, v in headers if n != name), (name, _header_value(call.query[parameter]))]
    if call.request.method == "GET" and is_transcoded(found, call.headers):
        return await decompressed(found, headers)
    span = _span(call, found)
    start, stop = span or (0, found.size_bytes)
    if span is not None:
        headers.append((b"content-range", content_range(start, stop, found.size_bytes)))
    status = 200 if span is None else 206
    if call.request.method == "HEAD":
        return Response(status=status, headers=headers, content_length=stop - start)
    return Response(status=status, headers=headers, body=ContentSlice(content=found.content, start=start, stop=stop))


def _not_modified(call: Call, found: StoredObject) -> bool:
    """Returns whether the answer is 304; raises PreconditionFailed or UnmetConditionError."""
    try:
        conditions(call).check_read(found)
        check_read(call.headers, found)
    except NotModifiedError:
        return True
    except RestError as error:
        if error.code != "NotModified":
            raise
        return True
    return False


def _span(call: Call, found: StoredObject) -> tuple[int, int] | None:
    header = call.headers.get("range")
    if header is None or not range_applies(call.headers, found):
        return None
    try:
        return byte_range(header, found.size_bytes)
    except UnsatisfiableRangeError:
        details = f"{header} of {found.size_bytes} bytes"
        raise XmlApiError(
            "InvalidRange", details, headers=[(b"content-range", b"bytes */%d" % found.size_bytes)]
        ) from None


def _header_value(text: str) -> bytes:
    if any(ord(character) < 32 or ord(character) > 255 for character in text):
        raise XmlApiError("InvalidArgument", "A response header override holds a control character or is not Latin-1.")
    return text.encode("latin-1")
