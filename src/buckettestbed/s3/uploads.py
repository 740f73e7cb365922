"""Multipart uploads of S3: create, parts, list, complete, abort, with S3's checksums."""

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from buckettestbed.model.contents import pieces
from buckettestbed.model.digests import CRC_BYTES
from buckettestbed.model.objects import Part, Upload
from buckettestbed.rest.call import Call, quoted, xml_response
from buckettestbed.rest.uploads import (
    COMPLETE_BODY_LIMIT_BYTES,
    listed_parts,
    multipart_etag,
    parse_completion,
    part_number,
    parts_response,
)
from buckettestbed.s3.attributes import encrypted, requested_attributes
from buckettestbed.s3.bodies import receive_body
from buckettestbed.s3.checksums import (
    ALGORITHMS,
    DEFAULT_CHECKSUM,
    checksum_elements,
    checksum_headers,
    composite,
    of_full_object,
    stated_headers,
)
from buckettestbed.s3.completed import CompletedUploads
from buckettestbed.s3.conditions import write_check
from buckettestbed.s3.errors import S3Error
from buckettestbed.s3.listing import OWNER
from buckettestbed.s3.ranges import byte_range
from buckettestbed.s3.writing import copy_source
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import document, element, timestamp

__all__ = ["abort_upload", "complete_upload", "create_upload", "list_parts", "upload_part", "upload_part_copy"]


async def create_upload(call: Call) -> Response:
    """Opens an upload."""
    bucket, attributes = call.bucket(), requested_attributes(call.headers)
    algorithm, kind = _checksum_kind(call)
    attributes = replace(attributes, checksum_type=kind)
    upload = call.buckets.create_upload(bucket, call.key, attributes=attributes, checksum_algorithm=algorithm)
    fields = [element("Bucket", bucket.name), element("Key", call.key), element("UploadId", upload.id)]
    headers = [encrypted(call.buckets.encryption)]
    if algorithm is not None:
        headers.append((b"x-amz-checksum-algorithm", algorithm.upper().encode()))
        headers.append((b"x-amz-checksum-type", kind.encode()))
    return xml_response(document("InitiateMultipartUploadResult", fields), headers)


def _checksum_kind(call: Call) -> tuple[str | None, str]:
    """Returns the algorithm of an upload's checksums, or None for the one that nobody asked for, and their type.

    *Source*: Amazon S3 user guide, object integrity: CRC64NVME only of the full object, SHA only of the parts'
    checksums, the other CRCs of either, of the parts' unless asked otherwise.
    """
    algorithm = call.headers.get("x-amz-checksum-algorithm", "").lower() or None
    if algorithm is None:
        return None, "FULL_OBJECT"
    if algorithm not in ALGORITHMS:
        raise S3Error("InvalidRequest", f"Checksum algorithm {algorithm} is not one of {', '.join(ALGORITHMS)}.")
    usual = "FULL_OBJECT" if algorithm == "crc64nvme" else "COMPOSITE"
    kind = call.headers.get("x-amz-checksum-type", usual).upper()
    allowed = {"crc64nvme": {"FULL_OBJECT"}, "sha1": {"COMPOSITE"}, "sha256": {"COMPOSITE"}}
    if kind not in allowed.get(algorithm, {"FULL_OBJECT", "COMPOSITE"}):
        raise S3Error("InvalidRequest", f"{kind} is no checksum type of {algorithm.upper()}.")
    return algorithm, kind


async def upload_part(call: Call) -> Response:
    """Takes a part in."""
    bucket, number = call.bucket(), part_number(call)
    upload = bucket.upload(call.query["uploadId"], call.key)
    algorithm = upload.checksum_algorithm
    body = await receive_body(call, default_checksum=algorithm or DEFAULT_CHECKSUM)
    if algorithm is not None and algorithm not in body.checksums:
        body.received.content.release()
        raise S3Error("InvalidRequest", f"The upload was created with {algorithm} checksums; the part has another.")
    part = Part(
        number=number, content=body.received.content, etag=body.etag, modified_s=time.time(), checksums=body.checksums
    )
    call.buckets.put_part(bucket, upload, part)
    return Response(
        status=200,
        headers=[
            (b"etag", quoted(body.etag).encode()),
            encrypted(call.buckets.encryption),
            *stated_headers(body.checksums),
        ],
    )


async def upload_part_copy(call: Call) -> Response:
    """Makes a part of an object, or of the range that x-amz-copy-source-range names."""
    bucket, number = call.bucket(), part_number(call)
    upload, source = bucket.upload(call.query["uploadId"], call.key), copy_source(call)
    start, stop = 0, source.size_bytes
    if (header := call.headers.get("x-amz-copy-source-range")) is not None:
        span = byte_range(header, source.size_bytes)
        last = header.rpartition("-")[2].strip()
        if span is None or not last.isdecimal() or int(last) >= source.size_bytes:
            raise S3Error("InvalidArgument", f"{header} is not bytes=FIRST-LAST within {source.size_bytes} bytes.")
        start, stop = span
    algorithm = upload.checksum_algorithm or DEFAULT_CHECKSUM
    incoming = call.buckets.receive(algorithm)
    try:
        for piece in pieces(source.content, start, stop):
            incoming.write(bytes(piece))
        received = await incoming.finish()
    except BaseException:
        incoming.discard()
        raise
    etag = call.buckets.etag(received)
    checksums = {algorithm: base64.b64encode(received.digests[algorithm]).decode()}
    part = Part(number=number, content=received.content, etag=etag, modified_s=time.time(), checksums=checksums)
    call.buckets.put_part(bucket, upload, part)
    fields = [element("ETag", quoted(etag)), element("LastModified", timestamp(part.modified_s))]
    return xml_response(
        document("CopyPartResult", [*fields, *checksum_elements(checksums)]),
        [encrypted(call.buckets.encryption)],
    )


async def list_parts(call: Call) -> Response:
    """Lists the parts of an open upload, up to 1,000 a page."""
    upload = call.bucket().upload(call.query["uploadId"], call.key)
    fields: list[str] = []
    if upload.checksum_algorithm is not None:
        fields = [
            element("ChecksumAlgorithm", upload.checksum_algorithm.upper()),
            element("ChecksumType", upload.attributes.checksum_type),
        ]
    owner = "<Initiator><ID>testbed</ID></Initiator>" + OWNER
    return parts_response(
        call, upload, owner=owner, describe=lambda part: checksum_elements(part.checksums), fields=fields
    )


async def complete_upload(call: Call, completed: CompletedUploads) -> Response:
    """Publishes the parts that the body lists, in its order, as one object; where the upload was completed with the
    same parts before, gives the same answer again."""
    bucket = call.bucket()
    listed = parse_completion(await call.xml_body(COMPLETE_BODY_LIMIT_BYTES))
    upload_id = call.query["uploadId"]
    header = encrypted(call.buckets.encryption)
    if upload_id not in bucket.uploads and (again := completed.answer(bucket, upload_id, call.key, listed)):
        return xml_response(again, [header])
    upload = bucket.upload(upload_id, call.key)
    check_parts = partial(_check_checksums, upload)
    parts = listed_parts(upload, listed, minimum_part_bytes=call.minimum_part_bytes, check=check_parts)
    _check_size(call, parts)
    etag = multipart_etag([part.etag for part in parts])
    checksums = await _whole_checksums(call, upload, parts)
    attributes = replace(upload.attributes, checksums=checksums)
    await call.buckets.complete_upload(
        bucket, upload, parts, etag=etag, attributes=attributes, check=write_check(call.headers)
    )
    fields = [
        element("Location", f"/{bucket.name}/{call.key}"),
        element("Bucket", bucket.name),
        element("Key", call.key),
        element("ETag", quoted(etag)),
        *checksum_elements(checksums, attributes.checksum_type),
    ]
    document_bytes = document("CompleteMultipartUploadResult", fields)
    completed.remember(bucket, upload, listed, document_bytes)
    return xml_response(document_bytes, [header])


def _check_size(call: Call, parts: Sequence[Part]) -> None:
    """Raises InvalidRequest where x-amz-mp-object-size states another size than the parts have together."""
    stated, size_bytes = call.headers.get("x-amz-mp-object-size"), sum(part.content.size_bytes for part in parts)
    if stated is not None and stated != str(size_bytes):
        raise S3Error(
            "InvalidRequest", f"x-amz-mp-object-size is {stated}; the parts have {size_bytes} bytes together."
        )


def _check_checksums(upload: Upload, part: Part, fields: Mapping[str, str]) -> None:
    """Raises InvalidPart where the completion states another checksum than the part has, InvalidRequest where it states
    none although the upload's checksum is made of its parts'."""
    for name in ALGORITHMS:
        stated = fields.get(f"Checksum{name.upper()}")
        if stated is not None and part.checksums.get(name) != stated:
            raise S3Error("InvalidPart", fields={"UploadId": upload.id, "PartNumber": str(part.number)})
    algorithm = upload.checksum_algorithm
    needed = algorithm is not None and upload.attributes.checksum_type == "COMPOSITE"
    if needed and algorithm not in part.checksums:
        raise S3Error("InvalidRequest", f"Part {part.number} came by another API and has no {algorithm} checksum.")
    if needed and f"Checksum{str(algorithm).upper()}" not in fields:
        raise S3Error(
            "InvalidRequest",
            f"The upload was created with {algorithm} checksums of its parts; the completion has none for part"
            f" {part.number}.",
        )


async def _whole_checksums(call: Call, upload: Upload, parts: Sequence[Part]) -> dict[str, str]:
    """Returns the finished object's checksum, of the full object or of its parts' checksums; raises BadDigest or
    InvalidRequest where the client states another."""
    stated = checksum_headers(call.headers)
    kind, algorithm = upload.attributes.checksum_type, upload.checksum_algorithm
    if (stated_kind := call.headers.get("x-amz-checksum-type", kind).upper()) != kind and algorithm is not None:
        raise S3Error("InvalidRequest", f"x-amz-checksum-type is {stated_kind}, the upload was created with {kind}.")
    if kind == "COMPOSITE" and algorithm is not None:
        whole = composite(algorithm, [part.checksums[algorithm] for part in parts])
    else:
        algorithm = algorithm or next((name for name in stated if name in CRC_BYTES), DEFAULT_CHECKSUM)
        whole = await of_full_object(algorithm, parts)
    if stated.get(algorithm, whole) != whole:
        raise S3Error(
            "BadDigest",
            f"The {algorithm.upper()} you specified did not match the calculated checksum.",
            fields={"Expected": stated[algorithm], "Calculated": whole},
        )
    return {algorithm: whole}


async def abort_upload(call: Call) -> Response:
    """Closes an upload and frees its parts."""
    bucket = call.bucket()
    call.buckets.abort_upload(bucket, bucket.upload(call.query["uploadId"], call.key))
    return Response(status=204)
