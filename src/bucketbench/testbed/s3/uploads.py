"""Multipart uploads: create, parts, list, complete, abort. *Source* of the limits: Amazon S3 user guide, multipart
upload limits."""

import hashlib
import time
from collections.abc import Sequence

from bucketbench.testbed.model.contents import pieces
from bucketbench.testbed.model.objects import Attributes, Part, Upload
from bucketbench.testbed.rest.call import Call, quoted, xml_response
from bucketbench.testbed.s3.attributes import requested_attributes
from bucketbench.testbed.s3.bodies import receive_body
from bucketbench.testbed.s3.checksums import ALGORITHMS, checksum_headers, composite
from bucketbench.testbed.s3.conditions import write_check
from bucketbench.testbed.s3.errors import S3Error
from bucketbench.testbed.s3.ranges import byte_range
from bucketbench.testbed.s3.writing import copy_source
from bucketbench.testbed.s3.xml import parse
from bucketbench.testbed.serving.messages import Response
from bucketbench.testbed.serving.xml import children, document, element, timestamp

__all__ = [
    "abort_upload",
    "complete_upload",
    "create_upload",
    "list_parts",
    "multipart_etag",
    "upload_part",
    "upload_part_copy",
]

PART_COUNT_LIMIT = 10_000
PART_MINIMUM_BYTES = 5 << 20
"""Least size of a part other than the last."""

_COMPLETE_BODY_LIMIT_BYTES = 8 << 20
"""10,000 parts with an ETag and a checksum each take about 2 MiB. *Source*: arithmetic."""


def multipart_etag(part_etags: Sequence[str]) -> str:
    """Returns the ETag of a multipart object: the MD5 of the parts' MD5 digests, `-`, their number."""
    joined = b"".join(bytes.fromhex(etag) for etag in part_etags)
    return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(part_etags)}"


async def create_upload(call: Call) -> Response:
    """Opens an upload."""
    bucket, attributes = call.bucket(), requested_attributes(call.headers)
    algorithm = call.headers.get("x-amz-checksum-algorithm", "").lower() or None
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise S3Error("InvalidRequest", f"Checksum algorithm {algorithm} is not one of {', '.join(ALGORITHMS)}.")
    kind = call.headers.get("x-amz-checksum-type", "FULL_OBJECT" if algorithm == "crc64nvme" else "COMPOSITE").upper()
    attributes = Attributes(headers=attributes.headers, metadata=attributes.metadata, checksum_type=kind)
    upload = call.buckets.create_upload(bucket, call.key, attributes=attributes, checksum_algorithm=algorithm)
    fields = [element("Bucket", bucket.name), element("Key", call.key), element("UploadId", upload.id)]
    headers: list[tuple[bytes, bytes]] = []
    if algorithm is not None:
        headers = [(b"x-amz-checksum-algorithm", algorithm.upper().encode()), (b"x-amz-checksum-type", kind.encode())]
    return xml_response(document("InitiateMultipartUploadResult", fields), headers)


def _part_number(call: Call) -> int:
    number = call.integer("partNumber", 0, least=1, most=PART_COUNT_LIMIT + 1)
    if not 1 <= number <= PART_COUNT_LIMIT:
        raise S3Error(
            "InvalidArgument",
            f"Part number must be an integer between 1 and {PART_COUNT_LIMIT}, inclusive.",
            fields={"ArgumentName": "partNumber", "ArgumentValue": call.query.get("partNumber", "")},
        )
    return number


async def upload_part(call: Call) -> Response:
    """Takes a part in."""
    bucket, number = call.bucket(), _part_number(call)
    upload = bucket.upload(call.query["uploadId"], call.key)
    body = await receive_body(call)
    part = Part(
        number=number, content=body.received.content, etag=body.etag, modified_s=time.time(), checksums=body.checksums
    )
    call.buckets.put_part(bucket, upload, part)
    checksums = [(f"x-amz-checksum-{name}".encode(), value.encode()) for name, value in body.checksums.items()]
    return Response(status=200, headers=[(b"etag", quoted(body.etag).encode()), *checksums])


async def upload_part_copy(call: Call) -> Response:
    """Makes a part of an object, or of the range that x-amz-copy-source-range names."""
    bucket, number = call.bucket(), _part_number(call)
    upload, source = bucket.upload(call.query["uploadId"], call.key), copy_source(call)
    start, stop = 0, source.size_bytes
    if (header := call.headers.get("x-amz-copy-source-range")) is not None:
        span = byte_range(header, source.size_bytes)
        last = header.rpartition("-")[2].strip()
        if span is None or not last.isdecimal() or int(last) >= source.size_bytes:
            raise S3Error("InvalidArgument", f"{header} is not bytes=FIRST-LAST within {source.size_bytes} bytes.")
        start, stop = span
    incoming = call.buckets.holder.receive()
    try:
        for piece in pieces(source.content, start, stop):
            incoming.write(bytes(piece))
        received = await incoming.finish()
    except BaseException:
        incoming.discard()
        raise
    etag = received.digests["md5"].hex()
    part = Part(number=number, content=received.content, etag=etag, modified_s=time.time())
    call.buckets.put_part(bucket, upload, part)
    fields = [element("ETag", quoted(etag)), element("LastModified", timestamp(part.modified_s))]
    return xml_response(document("CopyPartResult", fields))


async def list_parts(call: Call) -> Response:
    """Lists the parts of an open upload, up to 1,000 a page."""
    upload = call.bucket().upload(call.query["uploadId"], call.key)
    marker = call.integer("part-number-marker", 0, most=PART_COUNT_LIMIT)
    limit = call.integer("max-parts", 1000, most=1000)
    later = sorted(number for number in upload.parts if number > marker)
    shown = [upload.parts[number] for number in later[:limit]]
    fields = [
        element("Bucket", call.bucket_name),
        element("Key", call.key),
        element("UploadId", upload.id),
        element("StorageClass", "STANDARD"),
        element("PartNumberMarker", marker),
        element("NextPartNumberMarker", shown[-1].number if shown else 0),
        element("MaxParts", limit),
        element("IsTruncated", str(len(later) > len(shown)).lower()),
    ]
    for part in shown:
        described = [
            element("PartNumber", part.number),
            element("LastModified", timestamp(part.modified_s)),
            element("ETag", quoted(part.etag)),
            element("Size", part.content.size_bytes),
            *(element(f"Checksum{name.upper()}", value) for name, value in part.checksums.items()),
        ]
        fields.append(f"<Part>{''.join(described)}</Part>")
    return xml_response(document("ListPartsResult", fields))


async def complete_upload(call: Call) -> Response:
    """Publishes the parts that the body lists, in its order, as one object."""
    bucket = call.bucket()
    upload = bucket.upload(call.query["uploadId"], call.key)
    body = await call.xml_body(_COMPLETE_BODY_LIMIT_BYTES)
    parts = _listed_parts(upload, body)
    etag = multipart_etag([part.etag for part in parts])
    checksums = _whole_checksums(call, upload, parts)
    attributes = Attributes(
        headers=upload.attributes.headers,
        metadata=upload.attributes.metadata,
        checksums=checksums,
        checksum_type=upload.attributes.checksum_type if checksums else "FULL_OBJECT",
    )
    await call.buckets.complete_upload(
        bucket, upload, parts, etag=etag, attributes=attributes, check=write_check(call.headers)
    )
    fields = [
        element("Location", f"/{bucket.name}/{call.key}"),
        element("Bucket", bucket.name),
        element("Key", call.key),
        element("ETag", quoted(etag)),
        *(element(f"Checksum{name.upper()}", value) for name, value in checksums.items()),
        *([element("ChecksumType", attributes.checksum_type)] if checksums else []),
    ]
    return xml_response(document("CompleteMultipartUploadResult", fields))


def _listed_parts(upload: Upload, body: bytes) -> list[Part]:
    """Returns the parts a completion lists; raises MalformedXML, InvalidPartOrder, InvalidPart or EntityTooSmall."""
    parts: list[Part] = []
    for name, child in children(parse(body, "CompleteMultipartUpload")):
        if name != "Part":
            continue
        fields = {field_name: (field.text or "").strip() for field_name, field in children(child)}
        text = fields.get("PartNumber", "")
        if not (text.isascii() and text.isdecimal()):
            raise S3Error("MalformedXML", f"PartNumber is {text!r}.")
        number, etag = int(text[:8]), fields.get("ETag", "").strip('"')
        if parts and number <= parts[-1].number:
            raise S3Error("InvalidPartOrder", fields={"UploadId": upload.id})
        part = upload.parts.get(number)
        if part is None or part.etag != etag or not _checksums_agree(part, fields):
            raise S3Error("InvalidPart", fields={"UploadId": upload.id, "PartNumber": str(number), "ETag": etag})
        parts.append(part)
    if not parts:
        raise S3Error("MalformedXML", "The completion lists no part.")
    for part in parts[:-1]:
        if part.content.size_bytes < PART_MINIMUM_BYTES:
            raise S3Error(
                "EntityTooSmall",
                fields={
                    "ProposedSize": str(part.content.size_bytes),
                    "MinSizeAllowed": str(PART_MINIMUM_BYTES),
                    "PartNumber": str(part.number),
                    "ETag": part.etag,
                },
            )
    return parts


def _checksums_agree(part: Part, fields: dict[str, str]) -> bool:
    stated = {name: fields[f"Checksum{name.upper()}"] for name in ALGORITHMS if f"Checksum{name.upper()}" in fields}
    return all(part.checksums.get(name, value) == value for name, value in stated.items())


def _whole_checksums(call: Call, upload: Upload, parts: Sequence[Part]) -> dict[str, str]:
    """Returns the finished object's checksums: that of the parts' where each has one, or the full object's that the
    client states."""
    if upload.attributes.checksum_type == "FULL_OBJECT":
        return checksum_headers(call.headers)
    algorithm = upload.checksum_algorithm
    if algorithm is None or any(algorithm not in part.checksums for part in parts):
        return {}
    return {algorithm: composite(algorithm, [part.checksums[algorithm] for part in parts])}


async def abort_upload(call: Call) -> Response:
    """Closes an upload and frees its parts."""
    bucket = call.bucket()
    call.buckets.abort_upload(bucket, bucket.upload(call.query["uploadId"], call.key))
    return Response(status=204)
