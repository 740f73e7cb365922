"""GET and HEAD of objects, and GetObjectAttributes."""

import base64
from collections.abc import Mapping
from email.utils import formatdate
from itertools import accumulate

from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.attributes import ObjectHeaders, described_attributes
from buckettestbed.rest.call import Call, xml_response
from buckettestbed.rest.conditions import check_read, range_applies
from buckettestbed.rest.errors import RestError
from buckettestbed.rest.uploads import PART_COUNT_LIMIT
from buckettestbed.s3.attributes import CONTENT_HEADERS, encrypted
from buckettestbed.s3.checksums import checksum_elements, stated_headers
from buckettestbed.s3.errors import S3Error
from buckettestbed.s3.ranges import byte_range
from buckettestbed.serving.messages import ContentSlice, Response
from buckettestbed.serving.ranges import content_range
from buckettestbed.serving.xml import document, element

__all__ = ["OBJECT_HEADERS", "checksum_response_headers", "get_object", "get_object_attributes"]

_OVERRIDES = {
    "response-content-type": "content-type",
    "response-content-language": "content-language",
    "response-expires": "expires",
    "response-cache-control": "cache-control",
    "response-content-disposition": "content-disposition",
    "response-content-encoding": "content-encoding",
}
"""*Source*: Amazon S3 API reference, GetObject, request parameters."""

_PARTS_LIMIT = 1000
"""*Source*: Amazon S3 API reference, GetObjectAttributes, x-amz-max-parts."""


def _object_headers(found: StoredObject) -> list[tuple[bytes, bytes]]:
    attributes = found.attributes
    headers = [
        (b"etag", b'"%s"' % found.etag.encode()),
        (b"last-modified", formatdate(found.modified_s, usegmt=True).encode()),
        (b"accept-ranges", b"bytes"),
        encrypted(found.encryption),
    ]
    if attributes.storage_class != "STANDARD":  # S3 leaves the usual one out.
        headers.append((b"x-amz-storage-class", attributes.storage_class.encode()))
    headers += described_attributes(
        attributes, kept=CONTENT_HEADERS, default_type="binary/octet-stream", metadata_prefix="x-amz-meta-"
    )
    return headers


OBJECT_HEADERS = ObjectHeaders("s3", _object_headers)
"""Of every answer about an object."""


async def get_object(call: Call) -> Response:
    """Answers GET, whole, by range or by part number, and HEAD."""
    found = call.found()
    check = check_not_modified(call, found)
    if check is not None:
        return check
    headers = list(OBJECT_HEADERS.headers(found))
    for parameter, name in _OVERRIDES.items():
        if parameter in call.query:
            value = _header_value(call.query[parameter])
            headers = [*((n, v) for n, v in headers if n != name.encode()), (name.encode(), value)]
    span = _span(call, found)
    start, stop = span or (0, found.size_bytes)
    if "partNumber" in call.query and found.part_sizes_bytes:
        headers.append((b"x-amz-mp-parts-count", b"%d" % len(found.part_sizes_bytes)))
    if span is not None:
        headers.append((b"content-range", content_range(start, stop, found.size_bytes)))
    if call.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
        if "partNumber" in call.query and found.part_sizes_bytes:
            headers += _part_checksum_headers(found, _part_number(call))
        elif span is None:
            headers += checksum_response_headers(found)
    status = 200 if span is None else 206
    if call.request.method == "HEAD":
        return Response(status=status, headers=headers, content_length=stop - start)
    return Response(status=status, headers=headers, body=ContentSlice(content=found.content, start=start, stop=stop))


def check_not_modified(call: Call, found: StoredObject) -> Response | None:
    """Returns a 304 with the object's validators, or None; raises PreconditionFailed."""
    try:
        check_read(call.headers, found)
    except RestError as error:
        if error.code != "NotModified":
            raise
        validators = (b"etag", b"last-modified", b"cache-control")
        return Response(status=304, headers=[(n, v) for n, v in OBJECT_HEADERS.headers(found) if n in validators])
    return None


def checksum_response_headers(found: StoredObject) -> list[tuple[bytes, bytes]]:
    """Returns the object's checksums as headers, which GET and HEAD have only when asked (`x-amz-checksum-mode:
    ENABLED`)."""
    checksums, checksum_type = _checksums(found)
    return stated_headers(checksums, checksum_type)


def _checksums(found: StoredObject) -> tuple[Mapping[str, str], str]:
    """Returns an object's checksums and their type; the CRC-32C, which is always known, of one that came by GCS."""
    if found.attributes.checksums:
        return found.attributes.checksums, found.attributes.checksum_type
    return {"crc32c": base64.b64encode(found.content.crc32c).decode()}, "FULL_OBJECT"


def _part_checksum_headers(found: StoredObject, number: int) -> list[tuple[bytes, bytes]]:
    """Returns the checksum of one part as headers, none where the upload asked for none."""
    if not found.part_checksums:
        return []
    algorithm = next(iter(found.attributes.checksums))
    return stated_headers({algorithm: found.part_checksums[number - 1]}, found.attributes.checksum_type)


def _part_number(call: Call) -> int:
    return call.integer("partNumber", 1, least=1, most=PART_COUNT_LIMIT)


def _header_value(text: str) -> bytes:
    if any(ord(character) < 32 or ord(character) > 255 for character in text):
        raise S3Error("InvalidArgument", "A response header override holds a control character or is not Latin-1.")
    return text.encode("latin-1")


def _span(call: Call, found: StoredObject) -> tuple[int, int] | None:
    """Returns the bytes asked for by partNumber or Range, or None for the whole object."""
    if "partNumber" in call.query:
        if "range" in call.headers:
            raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter.")
        number = _part_number(call)
        sizes = found.part_sizes_bytes or (found.size_bytes,)
        if number > len(sizes):
            raise S3Error(
                "InvalidPartNumber", fields={"PartNumberRequested": str(number), "ActualPartCount": str(len(sizes))}
            )
        stop = list(accumulate(sizes))[number - 1]
        return (stop - sizes[number - 1], stop) if found.size_bytes else None
    header = call.headers.get("range")
    if header is None or not range_applies(call.headers, found):
        return None
    return byte_range(header, found.size_bytes)


async def get_object_attributes(call: Call) -> Response:
    """Answers with those of ETag, Checksum, ObjectParts, StorageClass and ObjectSize that the request names."""
    found = call.found()
    wanted = {name.strip() for name in call.headers.get("x-amz-object-attributes", "").split(",")}
    content: list[str] = []
    if "ETag" in wanted:
        content.append(element("ETag", found.etag))
    if "Checksum" in wanted:
        content.append(f"<Checksum>{''.join(checksum_elements(*_checksums(found)))}</Checksum>")
    if "ObjectParts" in wanted and found.part_sizes_bytes:
        content.append(f"<ObjectParts>{''.join(_parts(call, found))}</ObjectParts>")
    if "StorageClass" in wanted:
        content.append(element("StorageClass", found.attributes.storage_class))
    if "ObjectSize" in wanted:
        content.append(element("ObjectSize", found.size_bytes))
    modified = [header for header in OBJECT_HEADERS.headers(found) if header[0] == b"last-modified"]
    return xml_response(document("GetObjectAttributesResponse", content), modified)


def _parts(call: Call, found: StoredObject) -> list[str]:
    """Returns the elements that tell an object's parts, up to 1,000 a page, after x-amz-part-number-marker.

    *Source*: Amazon S3 API reference, GetObjectAttributesParts: the parts themselves only where the upload asked for a
    checksum; else their number alone.
    """
    sizes = found.part_sizes_bytes
    count = element("PartsCount", len(sizes))
    if not found.part_checksums:
        return [count]
    marker = call.integer("x-amz-part-number-marker", 0, most=PART_COUNT_LIMIT, of=call.headers)
    limit = call.integer("x-amz-max-parts", _PARTS_LIMIT, most=_PARTS_LIMIT, of=call.headers)
    name = f"Checksum{next(iter(found.attributes.checksums)).upper()}"
    shown = range(marker + 1, min(marker + limit, len(sizes)) + 1)
    truncated = bool(shown) and shown[-1] < len(sizes)
    parts = [
        element("PartNumber", number)
        + element("Size", sizes[number - 1])
        + element(name, found.part_checksums[number - 1])
        for number in shown
    ]
    return [
        count,
        element("PartNumberMarker", marker),
        element("NextPartNumberMarker", shown[-1] if shown else 0),
        element("MaxParts", limit),
        element("IsTruncated", str(truncated).lower()),
        *(f"<Part>{part}</Part>" for part in parts),
    ]
