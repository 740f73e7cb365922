"""PUT, copy and delete of objects."""

from urllib.parse import unquote_to_bytes

from bucketbench.testbed.model.contents import pieces
from bucketbench.testbed.model.digests import digests_of
from bucketbench.testbed.model.objects import Attributes, StoredObject
from bucketbench.testbed.rest.addressing import check_key
from bucketbench.testbed.rest.call import Call, quoted, xml_response
from bucketbench.testbed.rest.conditions import check_read
from bucketbench.testbed.rest.errors import RestError
from bucketbench.testbed.s3.attributes import requested_attributes
from bucketbench.testbed.s3.bodies import receive_body
from bucketbench.testbed.s3.checksums import ALGORITHMS, checksum_headers, content_md5, verify
from bucketbench.testbed.s3.conditions import write_check
from bucketbench.testbed.s3.errors import S3Error, from_rest
from bucketbench.testbed.s3.xml import parse
from bucketbench.testbed.serving.messages import Response
from bucketbench.testbed.serving.xml import children, document, element, text, timestamp

__all__ = ["copy_object", "copy_source", "delete_object", "delete_objects", "put_object"]

DELETE_LIMIT = 1000
"""*Source*: Amazon S3 API reference, DeleteObjects: up to 1,000 keys a request."""

_DELETE_BODY_LIMIT_BYTES = 8 << 20
"""1,000 keys of 1,024 bytes, escaped six-fold, fit. *Source*: arithmetic."""


async def put_object(call: Call) -> Response:
    """Stores an object whole; with If-None-Match: * or If-Match only where the condition holds."""
    bucket, attributes, check = call.bucket(), requested_attributes(call.headers), write_check(call.headers)
    if check is not None:  # Early, to spare the upload; and again, atomically, when the object is published.
        check(bucket.objects.get(call.key))
    body = await receive_body(call)
    attributes = Attributes(headers=attributes.headers, metadata=attributes.metadata, checksums=body.checksums)
    call.buckets.put(
        bucket, call.key, content=body.received.content, etag=body.etag, attributes=attributes, check=check
    )
    checksums = [(f"x-amz-checksum-{name}".encode(), value.encode()) for name, value in body.checksums.items()]
    if checksums:
        checksums.append((b"x-amz-checksum-type", b"FULL_OBJECT"))
    return Response(status=200, headers=[(b"etag", quoted(body.etag).encode()), *checksums])


def copy_source(call: Call) -> StoredObject:
    """Returns the object that x-amz-copy-source names, if its conditions hold."""
    try:
        path, _, query = call.headers["x-amz-copy-source"].partition("?")
        bucket_name, _, key = unquote_to_bytes(path.encode("latin-1")).decode().removeprefix("/").partition("/")
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "x-amz-copy-source is not percent-encoded UTF-8.") from None
    if query:
        raise S3Error(
            "NotImplemented", "The testbed keeps no versions of objects.", fields={"Header": "x-amz-copy-source"}
        )
    if not bucket_name or not key:
        raise S3Error(
            "InvalidArgument", "x-amz-copy-source must be BUCKET/KEY.", fields={"ArgumentName": "x-amz-copy-source"}
        )
    found = call.buckets.bucket(bucket_name).objects.get(key)
    if found is None:
        raise S3Error("NoSuchKey", fields={"Key": key})
    check_read(call.headers, found, prefix="x-amz-copy-source-")
    return found


async def copy_object(call: Call) -> Response:
    """Stores a copy of an object, with its attributes or, by x-amz-metadata-directive: REPLACE, with the request's."""
    bucket, source = call.bucket(), copy_source(call)
    check = write_check(call.headers)
    replace = call.headers.get("x-amz-metadata-directive", "COPY").upper() == "REPLACE"
    if source is bucket.objects.get(call.key) and not replace:
        raise S3Error(
            "InvalidRequest", "A copy onto itself must change metadata, storage class, location or encryption."
        )
    attributes = source.attributes
    if replace:
        stated = requested_attributes(call.headers)
        attributes = Attributes(headers=stated.headers, metadata=stated.metadata, checksums=attributes.checksums)
    etag = source.etag
    if source.part_sizes_bytes:  # A copy is one part, so its ETag is the MD5 of the whole.
        incoming = call.buckets.holder.receive()
        try:
            for piece in pieces(source.content, 0, source.size_bytes):
                incoming.write(bytes(piece))
            received = await incoming.finish()
        except BaseException:
            incoming.discard()
            raise
        content, etag = received.content, received.digests["md5"].hex()
        attributes = Attributes(headers=attributes.headers, metadata=attributes.metadata)
    else:
        content = await call.buckets.holder.join([source.content])
    copied = call.buckets.put(bucket, call.key, content=content, etag=etag, attributes=attributes, check=check)
    fields = [element("ETag", quoted(etag)), element("LastModified", timestamp(copied.modified_s))]
    return xml_response(document("CopyObjectResult", fields))


async def delete_object(call: Call) -> Response:
    """Removes an object; there being none is no error."""
    call.buckets.delete(call.bucket(), call.key, check=write_check(call.headers))
    return Response(status=204)


async def delete_objects(call: Call) -> Response:
    """Removes up to 1,000 objects; with Quiet only errors are listed in the answer."""
    bucket = call.bucket()
    body = await call.xml_body(_DELETE_BODY_LIMIT_BYTES)
    _verify_document(call, body)
    quiet, keys = False, []
    for name, child in children(parse(body, "Delete")):
        if name == "Quiet":
            quiet = (child.text or "").strip().lower() == "true"
        elif name == "Object":
            key = next((field.text or "" for field_name, field in children(child) if field_name == "Key"), "")
            if not key:
                raise S3Error("MalformedXML", "An Object has no Key.")
            keys.append(key)
    if not 1 <= len(keys) <= DELETE_LIMIT:
        raise S3Error("MalformedXML", f"{len(keys)} objects to delete; 1 to {DELETE_LIMIT} are allowed.")
    results: list[str] = []
    for key in keys:
        try:
            check_key(key)
            call.buckets.delete(bucket, key)
        except RestError as refused:
            error = from_rest(refused)
            fields = element("Key", key) + element("Code", error.code) + element("Message", error.message)
            results.append(f"<Error>{fields}</Error>")
        else:
            if not quiet:
                results.append(f"<Deleted><Key>{text(key)}</Key></Deleted>")
    return xml_response(document("DeleteResult", results))


def _verify_document(call: Call, body: bytes) -> None:
    """Checks the MD5 and the checksums of a document against their headers."""
    md5, sent = content_md5(call.headers), checksum_headers(call.headers)
    digests = digests_of([body], ["md5", *ALGORITHMS])
    if md5 is not None and md5 != digests["md5"]:
        raise S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.")
    verify(sent, digests)
