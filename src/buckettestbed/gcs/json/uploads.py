"""Uploads in one request: the bytes alone (`media`), or with the metadata before them (`multipart`)."""

from buckettestbed.gcs.hashes import Stated, parse_hashes, verify_received
from buckettestbed.gcs.json.call import DOCUMENT_LIMIT_BYTES, Call, parse_document
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.metadata import stated_attributes, stated_hashes
from buckettestbed.gcs.json.related import RelatedParser, boundary_of
from buckettestbed.gcs.names import check_name
from buckettestbed.model.contents import Received
from buckettestbed.model.objects import Attributes, Bucket
from buckettestbed.serving.messages import Response

__all__ = ["object_name", "put_object"]


def object_name(call: Call, resource: dict[str, object]) -> str:
    """Returns the name of the object to be, which the parameter states before the resource.

    Raises:
        JsonError: 400, there is none.
        InvalidObjectNameError: GCS allows no such name.
    """
    name = call.query.get("name") or resource.get("name")
    if not isinstance(name, str) or not name:
        raise JsonError(400, "Required: name.", reason="required", parameter="name")
    check_name(name)
    return name


async def put_object(call: Call) -> Response:
    """Stores an object whole, if its conditions hold and its hashes are right."""
    bucket = call.bucket()
    stated = parse_hashes(call.headers.get("x-goog-hash", ""))
    if call.query.get("uploadType") == "multipart":
        name, attributes, received, of_metadata = await _receive_related(call, bucket)
        stated |= of_metadata
    else:
        name = object_name(call, {})
        attributes = stated_attributes({}, call.query, call.headers.get("content-type", ""))
        call.conditions.check_write(bucket.objects.get(name))  # Early, to spare the work; and again when published.
        received = await _receive_media(call)
    await verify_received(stated, received)
    found = call.buckets.put(
        bucket,
        name,
        content=received.content,
        etag=call.buckets.etag(received),
        attributes=attributes,
        check=call.conditions.check,
    )
    return call.answer_with(bucket, found)


async def _receive_media(call: Call) -> Received:
    incoming = call.buckets.receive()
    try:
        async for chunk in call.request.body.chunks():
            incoming.write(chunk)
        return await incoming.finish()
    except BaseException:
        incoming.discard()
        raise


async def _receive_related(call: Call, bucket: Bucket) -> tuple[str, Attributes, Received, Stated]:
    """Reads metadata and bytes; returns the object's name, its attributes, its bytes, and the hashes that the metadata
    states of them."""
    boundary = boundary_of(call.headers.get("content-type", ""))
    parser = RelatedParser(boundary, metadata_limit_bytes=DOCUMENT_LIMIT_BYTES)
    incoming = call.buckets.receive()
    resource: dict[str, object] | None = None
    name, stated = "", Stated()
    try:
        async for chunk in call.request.body.chunks():
            for piece in parser.feed(chunk):
                incoming.write(piece)
            if resource is None and parser.metadata is not None:
                resource = parse_document(parser.metadata)
                name = object_name(call, resource)
                stated = stated_hashes(resource)
                call.conditions.check_write(bucket.objects.get(name))
        if not parser.complete or resource is None:
            raise JsonError(400, "The multipart body ends before its closing boundary.")
        attributes = stated_attributes(resource, call.query, parser.content_type)
        return name, attributes, await incoming.finish(), stated
    except BaseException:
        incoming.discard()
        raise
