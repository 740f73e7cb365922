"""PUT, copy and delete of objects in the XML API."""

from dataclasses import replace
from urllib.parse import unquote_to_bytes

from buckettestbed.gcs.names import check_name
from buckettestbed.gcs.xml.bodies import receive_body
from buckettestbed.gcs.xml.conditions import check_generation, conditions
from buckettestbed.gcs.xml.errors import XmlApiError
from buckettestbed.gcs.xml.headers import requested_attributes, written_headers
from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.call import Call, quoted, xml_response
from buckettestbed.rest.conditions import check_read
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import document, element, timestamp

__all__ = ["NAMESPACE", "copy_object", "delete_object", "put_object"]

NAMESPACE = "http://doc.s3.amazonaws.com/2006-03-01"
"""Of all documents but those of multipart uploads. *Source*: Cloud Storage XML API reference, list objects."""


async def put_object(call: Call) -> Response:
    """Stores an object whole, where the conditions hold."""
    check_name(call.key)
    bucket, attributes, check = call.bucket(), requested_attributes(call.headers), conditions(call).check
    if check is not None:  # Early, to spare the upload; and again, atomically, when the object is published.
        check(bucket.objects.get(call.key))
    received = await receive_body(call)
    found = call.buckets.put(
        bucket,
        call.key,
        content=received.content,
        etag=call.buckets.etag(received),
        attributes=attributes,
        check=check,
    )
    return Response(status=200, headers=written_headers(found))


async def copy_object(call: Call) -> Response:
    """Stores a copy of an object with its attributes or, by x-goog-metadata-directive: REPLACE, with the request's.

    Unlike S3 a copy may be made onto itself, and one of a multipart object keeps its ETag: nobody computes its MD5.
    """
    check_name(call.key)
    bucket, source, check = call.bucket(), _copy_source(call), conditions(call).check
    attributes = source.attributes
    stated = requested_attributes(call.headers)
    directive = call.headers.get("x-goog-metadata-directive", "COPY").upper()
    if directive == "REPLACE":
        attributes = replace(attributes, headers=stated.headers, metadata=stated.metadata)
    elif directive != "COPY":
        raise XmlApiError("InvalidArgument", f"x-goog-metadata-directive is {directive!r}, not COPY or REPLACE.")
    if "x-goog-storage-class" in call.headers:
        attributes = replace(attributes, storage_class=stated.storage_class)
    content = await call.buckets.storage.join([source.content])
    copied = call.buckets.put(
        bucket,
        call.key,
        content=content,
        etag=source.etag,
        encryption=source.encryption,
        attributes=attributes,
        part_sizes_bytes=source.part_sizes_bytes,
        part_checksums=source.part_checksums,
        check=check,
    )
    fields = [element("LastModified", timestamp(copied.modified_s)), element("ETag", quoted(copied.etag))]
    return xml_response(document("CopyObjectResult", fields, namespace=NAMESPACE), written_headers(copied))


def _copy_source(call: Call) -> StoredObject:
    """Returns the object that x-goog-copy-source names, if its conditions hold."""
    try:
        path = unquote_to_bytes(call.headers["x-goog-copy-source"].encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise XmlApiError("InvalidURI", "x-goog-copy-source is not percent-encoded UTF-8.") from None
    bucket_name, _, key = path.removeprefix("/").partition("/")
    if not bucket_name or not key:
        raise XmlApiError("InvalidArgument", "x-goog-copy-source must be BUCKET/OBJECT.")
    found = call.buckets.bucket(bucket_name).objects.get(key)
    if found is None:
        raise XmlApiError("NoSuchKey", f"No such object: {bucket_name}/{key}")
    name = "x-goog-copy-source-generation"
    check_generation(name, call.headers.get(name), found)
    conditions(call, of_source=True).check_write(found)
    check_read(call.headers, found, prefix="x-goog-copy-source-")
    return found


async def delete_object(call: Call) -> Response:
    """Removes an object; unlike in S3 there being none is an error."""
    bucket, stated = call.bucket(), conditions(call)

    def check(current: StoredObject | None) -> None:
        found = call.found()
        check_generation("generation", call.query.get("generation"), found)
        stated.check_write(current)

    call.buckets.delete(bucket, call.key, check=check)
    return Response(status=204)
