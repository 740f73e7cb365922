"""Multipart uploads as S3 and the XML API of GCS both have them: their limits, ETags, documents and lists.

*Source* of the limits: Amazon S3 user guide, multipart upload limits; Cloud Storage, XML API multipart uploads.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from buckettestbed.model.objects import Bucket, Part, Upload
from buckettestbed.rest.call import Call, quoted, xml_response
from buckettestbed.rest.encoding import name_encoder
from buckettestbed.rest.errors import RestError
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import MalformedXmlError, children, document, element, parse, timestamp

__all__ = [
    "COMPLETE_BODY_LIMIT_BYTES",
    "PART_COUNT_LIMIT",
    "ListedPart",
    "listed_parts",
    "multipart_etag",
    "parse_completion",
    "part_number",
    "parts_response",
    "uploads_response",
]

PART_COUNT_LIMIT = 10_000
_PAGE_LIMIT = 1000

COMPLETE_BODY_LIMIT_BYTES = 8 << 20
"""10,000 parts with an ETag and a checksum each take about 2 MiB. *Source*: arithmetic."""


def multipart_etag(part_etags: Sequence[str]) -> str:
    """Returns the ETag of a multipart object: the MD5 of the parts' MD5 digests, `-`, their number."""
    joined = b"".join(bytes.fromhex(etag) for etag in part_etags)
    return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(part_etags)}"


def part_number(call: Call) -> int:
    """Returns the part number that a request states; raises InvalidArgument."""
    number = call.integer("partNumber", 0, least=1, most=PART_COUNT_LIMIT + 1)
    if not 1 <= number <= PART_COUNT_LIMIT:
        raise RestError(
            "InvalidArgument",
            f"Part number must be an integer between 1 and {PART_COUNT_LIMIT}, inclusive.",
            fields={"ArgumentName": "partNumber", "ArgumentValue": call.query.get("partNumber", "")},
        )
    return number


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedPart:
    """A part as a completion lists it; `fields` are all elements that it has for the part."""

    number: int
    etag: str
    fields: Mapping[str, str]


def parse_completion(body: bytes) -> list[ListedPart]:
    """Returns the parts that a completion's document lists, at least one; raises MalformedXML."""
    try:
        listed = children(parse(body, "CompleteMultipartUpload"))
    except MalformedXmlError as error:
        raise RestError("MalformedXML", str(error)) from None
    parts: list[ListedPart] = []
    for name, child in listed:
        if name != "Part":
            continue
        fields = {field_name: (field.text or "").strip() for field_name, field in children(child)}
        text = fields.get("PartNumber", "")
        if not (text.isascii() and text.isdecimal()):
            raise RestError("MalformedXML", f"PartNumber is {text!r}.")
        parts.append(ListedPart(number=int(text[:8]), etag=fields.get("ETag", "").strip('"'), fields=fields))
    if not parts:
        raise RestError("MalformedXML", "The completion lists no part.")
    return parts


def listed_parts(
    upload: Upload,
    listed: Sequence[ListedPart],
    *,
    minimum_part_bytes: int,
    check: Callable[[Part, Mapping[str, str]], None] | None = None,
) -> list[Part]:
    """Returns the parts that a completion lists, in its order.

    Args:
        upload: the open upload.
        listed: what the completion lists.
        minimum_part_bytes: least size of a part other than the last.
        check: called with each part and the fields that the document has for it; raises to refuse.

    Raises:
        RestError: InvalidPartOrder, InvalidPart or EntityTooSmall, or what `check` raises.
    """
    parts: list[Part] = []
    for wanted in listed:
        number, etag = wanted.number, wanted.etag
        if parts and number <= parts[-1].number:
            raise RestError("InvalidPartOrder", fields={"UploadId": upload.id})
        part = upload.parts.get(number)
        if part is None or part.etag != etag:
            raise RestError("InvalidPart", fields={"UploadId": upload.id, "PartNumber": str(number), "ETag": etag})
        if check is not None:
            check(part, wanted.fields)
        parts.append(part)
    for part in parts[:-1]:
        if part.content.size_bytes < minimum_part_bytes:
            raise RestError(
                "EntityTooSmall",
                fields={
                    "ProposedSize": str(part.content.size_bytes),
                    "MinSizeAllowed": str(minimum_part_bytes),
                    "PartNumber": str(part.number),
                    "ETag": part.etag,
                },
            )
    return parts


def parts_response(
    call: Call,
    upload: Upload,
    *,
    owner: str,
    describe: Callable[[Part], Collection[str]] | None = None,
    fields: Collection[str] = (),
) -> Response:
    """Returns the list of an open upload's parts, up to 1,000 a page.

    Args:
        call: the request.
        upload: the open upload.
        owner: elements that say who owns and who began the upload.
        describe: what else is said about a part, or None.
        fields: what else is said about the upload.
    """
    marker = call.integer("part-number-marker", 0, most=PART_COUNT_LIMIT)
    limit = call.integer("max-parts", _PAGE_LIMIT, most=_PAGE_LIMIT)
    later = sorted(number for number in upload.parts if number > marker)
    shown = [upload.parts[number] for number in later[:limit]]
    content = [
        element("Bucket", call.bucket_name),
        element("Key", call.key),
        element("UploadId", upload.id),
        owner,
        element("StorageClass", upload.attributes.storage_class),
        element("PartNumberMarker", marker),
        element("NextPartNumberMarker", shown[-1].number if shown else 0),
        element("MaxParts", limit),
        element("IsTruncated", str(0 < len(shown) < len(later)).lower()),  # A page of none would lead nowhere.
        *fields,
    ]
    for part in shown:
        described = [
            element("PartNumber", part.number),
            element("LastModified", timestamp(part.modified_s)),
            element("ETag", quoted(part.etag)),
            element("Size", part.content.size_bytes),
            *(describe(part) if describe else ()),
        ]
        content.append(f"<Part>{''.join(described)}</Part>")
    return xml_response(document("ListPartsResult", content))


def uploads_response(call: Call, bucket: Bucket, *, owner: str) -> Response:
    """Returns the list of a bucket's open uploads by key and then by age, rolled up by a delimiter, up to 1,000 a page.

    Args:
        call: the request.
        bucket: whose uploads.
        owner: elements that say who owns and who began an upload.
    """
    encode = name_encoder(call)
    prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
    marker = (call.query.get("key-marker", ""), call.query.get("upload-id-marker", ""))
    limit = call.integer("max-uploads", _PAGE_LIMIT, most=_PAGE_LIMIT)
    uploads, groups, last, truncated = _page(bucket, prefix, delimiter, marker, limit)
    content = [
        element("Bucket", bucket.name),
        f"<KeyMarker>{encode(marker[0])}</KeyMarker>",
        element("UploadIdMarker", marker[1]),
        f"<Prefix>{encode(prefix)}</Prefix>",
        *([f"<Delimiter>{encode(delimiter)}</Delimiter>"] if delimiter else []),
        element("MaxUploads", limit),
        element("IsTruncated", str(truncated).lower()),
    ]
    if truncated:
        content.append(f"<NextKeyMarker>{encode(last[0])}</NextKeyMarker>")
        content.append(element("NextUploadIdMarker", last[1]))
    if "encoding-type" in call.query:
        content.append(element("EncodingType", "url"))
    for upload in uploads:
        described = f"<Key>{encode(upload.key)}</Key>" + element("UploadId", upload.id)
        times = element("StorageClass", upload.attributes.storage_class) + element(
            "Initiated", timestamp(upload.created_s)
        )
        content.append(f"<Upload>{described}{owner}{times}</Upload>")
    content += [f"<CommonPrefixes><Prefix>{encode(group)}</Prefix></CommonPrefixes>" for group in groups]
    return xml_response(document("ListMultipartUploadsResult", content))


def _page(
    bucket: Bucket, prefix: str, delimiter: str, marker: tuple[str, str], limit: int
) -> tuple[list[Upload], list[str], tuple[str, str], bool]:
    """Returns the uploads and the common prefixes after a marker, the marker of the last, and whether more follow.

    A marker's id that is not open marks no place: then its key alone does, and every upload of that key lies before.
    """
    marker_key, marker_id = marker
    known, passed = marker_id in bucket.uploads, False
    uploads: list[Upload] = []
    groups: list[str] = []
    last = ("", "")
    for upload in sorted(bucket.uploads.values(), key=lambda upload: (upload.key, upload.created_s)):
        if upload.key == marker_key:
            listed, passed = known and passed, passed or upload.id == marker_id
        else:
            listed = upload.key > marker_key
        if not listed or not upload.key.startswith(prefix):
            continue
        cut = upload.key.find(delimiter, len(prefix)) if delimiter else -1
        group = upload.key[: cut + len(delimiter)] if cut >= 0 else None
        if group is not None and (group <= marker_key or group in groups[-1:]):
            continue
        if len(uploads) + len(groups) == limit:
            return uploads, groups, last, limit > 0
        if group is None:
            uploads.append(upload)
            last = (upload.key, upload.id)
        else:
            groups.append(group)
            last = (group, "")
    return uploads, groups, last, False
