"""Multipart uploads of the XML API. Their objects have no MD5, only the CRC-32C of the whole."""

import time

from buckettestbed.gcs.hashes import base64_text, verify
from buckettestbed.gcs.names import check_name
from buckettestbed.gcs.xml.bodies import PART_LIMIT_BYTES, receive_body, stated_hashes
from buckettestbed.gcs.xml.headers import requested_attributes, written_headers
from buckettestbed.gcs.xml.listing import OWNER
from buckettestbed.model.digests import combine_crcs
from buckettestbed.model.objects import Part
from buckettestbed.rest.call import Call, quoted, xml_response
from buckettestbed.rest.uploads import (
    COMPLETE_BODY_LIMIT_BYTES,
    listed_parts,
    multipart_etag,
    parse_completion,
    part_number,
    parts_response,
)
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import document, element

__all__ = ["abort_upload", "complete_upload", "create_upload", "list_parts", "upload_part"]


async def create_upload(call: Call) -> Response:
    """Opens an upload."""
    check_name(call.key)
    bucket = call.bucket()
    upload = call.buckets.create_upload(bucket, call.key, attributes=requested_attributes(call.headers))
    fields = [element("Bucket", bucket.name), element("Key", call.key), element("UploadId", upload.id)]
    return xml_response(document("InitiateMultipartUploadResult", fields))


async def upload_part(call: Call) -> Response:
    """Takes a part in."""
    bucket, number = call.bucket(), part_number(call)
    upload = bucket.upload(call.query["uploadId"], call.key)
    received = await receive_body(call, limit_bytes=PART_LIMIT_BYTES)
    part = Part(number=number, content=received.content, etag=call.buckets.etag(received), modified_s=time.time())
    call.buckets.put_part(bucket, upload, part)
    known = [name for name in ("crc32c", "md5") if name in received.digests]
    hashes = ",".join(f"{name}={base64_text(received.digests[name])}" for name in known)
    return Response(status=200, headers=[(b"etag", quoted(part.etag).encode()), (b"x-goog-hash", hashes.encode())])


async def list_parts(call: Call) -> Response:
    """Lists the parts of an open upload, up to 1,000 a page."""
    return parts_response(call, call.bucket().upload(call.query["uploadId"], call.key), owner=OWNER)


async def complete_upload(call: Call) -> Response:
    """Publishes the parts that the body lists, in its order, as one object, where a CRC-32C that x-goog-hash states is
    that of the whole. Conditions are ignored, as the service does: it supports none in requests of such uploads."""
    bucket = call.bucket()
    upload = bucket.upload(call.query["uploadId"], call.key)
    listed = parse_completion(await call.xml_body(COMPLETE_BODY_LIMIT_BYTES))
    parts = listed_parts(upload, listed, minimum_part_bytes=call.minimum_part_bytes)
    whole = combine_crcs("crc32c", ((part.content.crc32c, part.content.size_bytes) for part in parts))
    verify(stated_hashes(call.headers), {"crc32c": whole})
    found = await call.buckets.complete_upload(
        bucket,
        upload,
        parts,
        etag=multipart_etag([part.etag for part in parts]),
        attributes=upload.attributes,
    )
    fields = [
        element("Location", f"/{bucket.name}/{call.key}"),
        element("Bucket", bucket.name),
        element("Key", call.key),
        element("ETag", quoted(found.etag)),
    ]
    return xml_response(document("CompleteMultipartUploadResult", fields), written_headers(found)[1:])


async def abort_upload(call: Call) -> Response:
    """Closes an upload and frees its parts."""
    bucket = call.bucket()
    call.buckets.abort_upload(bucket, bucket.upload(call.query["uploadId"], call.key))
    return Response(status=204)
