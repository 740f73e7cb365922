"""PUT, copy and delete of objects."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote_to_bytes

from buckettestbed.model.contents import Content, pieces
from buckettestbed.model.digests import digests_of
from buckettestbed.model.objects import Attributes, StoredObject
from buckettestbed.rest.addressing import check_key
from buckettestbed.rest.call import Call, quoted, xml_response
from buckettestbed.rest.conditions import check_read
from buckettestbed.rest.errors import RestError
from buckettestbed.s3.attributes import encrypted, requested_attributes
from buckettestbed.s3.bodies import receive_body
from buckettestbed.s3.checksums import (
    ALGORITHMS,
    DEFAULT_CHECKSUM,
    checksum_elements,
    checksum_headers,
    content_md5,
    stated_headers,
    verify,
)
from buckettestbed.s3.conditions import delete_check, write_check
from buckettestbed.s3.errors import S3Error, translated
from buckettestbed.s3.xml import parse
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import children, document, element, text, timestamp

__all__ = ["copy_object", "copy_source", "delete_object", "delete_objects", "put_object"]

DELETE_LIMIT = 1000
"""*Source*: Amazon S3 API reference, DeleteObjects: up to 1,000 keys a request."""

_CHANGING = ("x-amz-storage-class", "x-amz-server-side-encryption")
"""Headers that make a copy onto itself a change. *Source*: Amazon S3 API reference, CopyObject."""

_DELETE_BODY_LIMIT_BYTES = 8 << 20
"""1,000 keys of 1,024 bytes, escaped six-fold, fit. *Source*: arithmetic."""


async def put_object(call: Call) -> Response:
    """Stores an object whole; with If-None-Match: * or If-Match only where the condition holds."""
    bucket, attributes, check = call.bucket(), requested_attributes(call.headers), write_check(call.headers)
    if check is not None:  # Early, to spare the upload; and again, atomically, when the object is published.
        check(bucket.objects.get(call.key))
    body = await receive_body(call)
    attributes = replace(attributes, checksums=body.checksums)
    call.buckets.put(
        bucket, call.key, content=body.received.content, etag=body.etag, attributes=attributes, check=check
    )
    headers = [
        (b"etag", quoted(body.etag).encode()),
        encrypted(call.buckets.encryption),
        *stated_headers(body.checksums, "FULL_OBJECT"),
    ]
    return Response(status=200, headers=headers)


def copy_source(call: Call) -> StoredObject:
    """Returns the object that x-amz-copy-source names, if its conditions hold."""
    try:
        path, _, query = call.headers["x-amz-copy-source"].partition("?")
        bucket_name, _, key = unquote_to_bytes(path.encode("latin-1")).decode().removeprefix("/").partition("/")
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "x-amz-copy-source is not percent-encoded UTF-8.") from None
    if query not in ("", "versionId=null"):  # Where versions were never enabled, null is the one there is.
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
    """Stores a copy of an object, with its attributes or, by x-amz-metadata-directive: REPLACE, with the request's.

    The storage class is always the request's: S3 takes the usual one where none is stated, whatever the source has.
    """
    bucket, source, check = call.bucket(), copy_source(call), write_check(call.headers)
    stated = requested_attributes(call.headers)
    directive = call.headers.get("x-amz-metadata-directive", "COPY").upper()
    if directive not in ("COPY", "REPLACE"):
        raise S3Error(
            "InvalidArgument",
            f"x-amz-metadata-directive is {directive!r}, not COPY or REPLACE.",
            fields={"ArgumentName": "x-amz-metadata-directive", "ArgumentValue": directive},
        )
    replaces = directive == "REPLACE"
    changes = replaces or any(name in call.headers for name in _CHANGING)
    if source is bucket.objects.get(call.key) and not changes:
        raise S3Error("InvalidRequest", "A copy onto itself must change metadata, storage class or encryption.")
    kept = stated if replaces else source.attributes
    content, etag, checksums = await _copied_content(call, source)
    attributes = Attributes(
        headers=kept.headers, metadata=kept.metadata, checksums=checksums, storage_class=stated.storage_class
    )
    copied = call.buckets.put(bucket, call.key, content=content, etag=etag, attributes=attributes, check=check)
    fields = [element("ETag", quoted(etag)), element("LastModified", timestamp(copied.modified_s))]
    elements = checksum_elements(checksums, attributes.checksum_type)
    return xml_response(document("CopyObjectResult", [*fields, *elements]), [encrypted(call.buckets.encryption)])


async def _copied_content(call: Call, source: StoredObject) -> tuple[Content, str, Mapping[str, str]]:
    """Returns the bytes of a copy, its ETag and its checksums, read anew where one of the two is not known of the
    whole."""
    attributes = source.attributes
    known = attributes.checksums if attributes.checksum_type == "FULL_OBJECT" else {}
    algorithm = call.headers.get("x-amz-checksum-algorithm", next(iter(known), DEFAULT_CHECKSUM)).lower()
    if algorithm not in ALGORITHMS:
        raise S3Error("InvalidRequest", f"Checksum algorithm {algorithm} is not one of {', '.join(ALGORITHMS)}.")
    if algorithm in known and "-" not in source.etag and source.encryption == call.buckets.encryption:
        return await call.buckets.storage.join([source.content]), source.etag, known
    incoming = call.buckets.receive(algorithm)  # A copy is one part, so its ETag is the MD5 of the whole.
    try:
        for piece in pieces(source.content, 0, source.size_bytes):
            incoming.write(bytes(piece))
        received = await incoming.finish()
    except BaseException:
        incoming.discard()
        raise
    checksums = {algorithm: base64.b64encode(received.digests[algorithm]).decode()}
    return received.content, call.buckets.etag(received), checksums


async def delete_object(call: Call) -> Response:
    """Removes an object; there being none is no error, whatever If-Match says."""
    call.buckets.delete(call.bucket(), call.key, check=delete_check(call.headers.get("if-match")))
    return Response(status=204)


async def delete_objects(call: Call) -> Response:
    """Removes up to 1,000 objects; with Quiet only errors are listed in the answer."""
    bucket = call.bucket()
    body = await call.xml_body(_DELETE_BODY_LIMIT_BYTES)
    _verify_document(call, body)
    quiet = False
    objects: list[Mapping[str, str]] = []
    for name, child in children(parse(body, "Delete")):
        if name == "Quiet":
            quiet = (child.text or "").strip().lower() == "true"
        elif name == "Object":
            fields = {field_name: field.text or "" for field_name, field in children(child)}
            if not fields.get("Key"):
                raise S3Error("MalformedXML", "An Object has no Key.")
            objects.append(fields)
    if not 1 <= len(objects) <= DELETE_LIMIT:
        raise S3Error("MalformedXML", f"{len(objects)} objects to delete; 1 to {DELETE_LIMIT} are allowed.")
    results: list[str] = []
    for entry in objects:
        key = entry["Key"]
        try:
            check_key(key)
            _check_entry(entry)
            call.buckets.delete(bucket, key, check=delete_check(entry.get("ETag")))
        except RestError as refused:
            error = translated(refused)
            described = element("Key", key) + element("Code", error.code) + element("Message", error.message)
            results.append(f"<Error>{described}</Error>")
        else:
            if not quiet:
                results.append(f"<Deleted><Key>{text(key)}</Key></Deleted>")
    return xml_response(document("DeleteResult", results))


def _check_entry(fields: Mapping[str, str]) -> None:
    """Raises NotImplemented for an entry that asks for more than the removal of the only version there is."""
    for name, value in fields.items():
        if name not in ("Key", "ETag") and (name, value) != ("VersionId", "null"):
            raise S3Error("NotImplemented", f"The testbed deletes by Key and ETag, not by {name} {value}.")


def _verify_document(call: Call, body: bytes) -> None:
    """Checks the MD5 and the checksums of a document against their headers."""
    md5, sent = content_md5(call.headers), checksum_headers(call.headers)
    digests = digests_of([body], ["md5", *ALGORITHMS])
    if md5 is not None and md5 != digests["md5"]:
        raise S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.")
    verify(sent, digests)
