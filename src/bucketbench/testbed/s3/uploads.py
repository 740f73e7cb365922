"""Multipart uploads of S3: create, parts, list, complete, abort, with S3's checksums."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

from bucketbench.testbed.model.contents import pieces
from bucketbench.testbed.model.objects import Attributes, Part, Upload
from bucketbench.testbed.rest.call import Call, quoted, xml_response
from bucketbench.testbed.rest.uploads import (
    COMPLETE_BODY_LIMIT_BYTES,
    listed_parts,
    multipart_etag,
    part_number,
    parts_response,
)
from bucketbench.testbed.s3.attributes import requested_attributes
from bucketbench.testbed.s3.bodies import receive_body
from bucketbench.testbed.s3.checksums import ALGORITHMS, checksum_headers, composite
from bucketbench.testbed.s3.conditions import write_check
from bucketbench.testbed.s3.errors import S3Error
from bucketbench.testbed.s3.listing import OWNER
from bucketbench.testbed.s3.ranges import byte_range
from bucketbench.testbed.s3.writing import copy_source
from bucketbench.testbed.serving.messages import Response
from bucketbench.testbed.serving.xml import document, element, timestamp

__all__ = ["abort_upload", "complete_upload", "create_upload", "list_parts", "upload_part", "upload_part_copy"]


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


async def upload_part(call: Call) -> Response:
    """Takes a part in."""
    bucket, number = call.bucket(), part_number(call)
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
    bucket, number = call.bucket(), part_number(call)
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
    fields: list[str] = []
    if upload.checksum_algorithm is not None:
        fields = [
            element("ChecksumAlgorithm", upload.checksum_algorithm.upper()),
            element("ChecksumType", upload.attributes.checksum_type),
        ]
    owner = "<Initiator><ID>testbed</ID></Initiator>" + OWNER
    return parts_response(call, upload, owner=owner, describe=_described_checksums, fields=fields)


def _described_checksums(part: Part) -> list[str]:
    return [element(f"Checksum{name.upper()}", value) for name, value in part.checksums.items()]


async def complete_upload(call: Call) -> Response:
    """Publishes the parts that the body lists, in its order, as one object."""
    bucket = call.bucket()
    upload = bucket.upload(call.query["uploadId"], call.key)
    body = await call.xml_body(COMPLETE_BODY_LIMIT_BYTES)
    parts = listed_parts(
        upload, body, minimum_part_bytes=call.minimum_part_bytes, check=partial(_check_checksums, upload)
    )
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


def _check_checksums(upload: Upload, part: Part, fields: Mapping[str, str]) -> None:
    """Raises InvalidPart where the completion states another checksum than the part has, InvalidRequest where it states
    none although the upload's checksum is made of its parts'."""
    for name in ALGORITHMS:
        stated = fields.get(f"Checksum{name.upper()}")
        if stated is not None and part.checksums.get(name) != stated:
            raise S3Error("InvalidPart", fields={"UploadId": upload.id, "PartNumber": str(part.number)})
    algorithm = upload.checksum_algorithm
    needed = algorithm is not None and upload.attributes.checksum_type == "COMPOSITE"
    if needed and f"Checksum{str(algorithm).upper()}" not in fields:
        raise S3Error(
            "InvalidRequest",
            f"The upload was created with {algorithm} checksums of its parts; the completion has none for part"
            f" {part.number}.",
        )


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
