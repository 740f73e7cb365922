"""Changes of objects that carry no bytes: metadata, deletion, copies, moves and composition."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.metadata import stated_attributes, updated_attributes
from buckettestbed.gcs.json.resources import object_resource
from buckettestbed.gcs.names import check_name
from buckettestbed.gcs.preconditions import Preconditions
from buckettestbed.model.errors import ObjectChangedError
from buckettestbed.model.objects import Attributes, Bucket, Check, StoredObject
from buckettestbed.serving.messages import Response

__all__ = ["SOURCES_LIMIT", "compose_object", "copy_object", "delete_object", "move_object", "update_object"]

SOURCES_LIMIT = 32
"""*Source*: Cloud Storage documentation, composite objects: 1 to 32 sources a request."""


async def update_object(call: Call) -> Response:
    """Changes an object's metadata: PATCH merges what the resource states, PUT replaces all."""
    bucket, resource = call.bucket(), await call.document()
    while True:
        found = call.found()
        call.conditions.check_write(found)
        attributes = updated_attributes(found.attributes, resource, replaces=call.request.method == "PUT")
        attributes = replace(attributes, storage_class=found.attributes.storage_class)  # Only a rewrite changes it.
        try:
            updated = await call.buckets.update(bucket, found, attributes, check=call.conditions.check)
        except ObjectChangedError:  # Only while the bytes were copied: what is there now may be updated as well.
            continue
        return call.answer_with(bucket, updated)


async def delete_object(call: Call) -> Response:
    """Removes an object; there being none is an error."""
    call.conditions.check_write(call.found())
    call.buckets.delete(call.bucket(), call.address.key)
    return Response(status=204)


async def copy_object(call: Call) -> Response:
    """Stores a copy of an object, of any size in one request, for both copyTo and rewriteTo.

    The resource in the body overrides the source's metadata field by field.
    """
    source = call.found(generation="sourceGeneration")
    bucket, key = call.buckets.bucket(call.address.to_bucket), call.address.to_key
    resource = await call.document()
    call.source_conditions.check_read(source)
    copied = await _copy(call, source, bucket, key, resource, call.conditions.check)
    if "/copyTo/" in call.address.form:
        return call.answer_with(bucket, copied)
    document = {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": str(copied.size_bytes),
        "objectSize": str(copied.size_bytes),
        "done": True,
        "resource": object_resource(bucket.name, copied, call.endpoint),
    }
    return call.answer(document)


async def move_object(call: Call) -> Response:
    """Renames an object within its bucket, at once or not at all."""
    bucket, source = call.bucket(), call.found(generation="sourceGeneration")
    call.source_conditions.check_read(source)

    def check(current: StoredObject | None) -> None:
        call.conditions.check_write(current)
        if bucket.objects.get(source.key) is not source:  # It was changed while its bytes were copied.
            raise ObjectChangedError(source.key)

    moved = await _copy(call, source, bucket, call.address.to_key, {}, check)
    if call.address.to_key != source.key:
        call.buckets.delete(bucket, source.key)
    return call.answer_with(bucket, moved)


async def _copy(
    call: Call,
    source: StoredObject,
    bucket: Bucket,
    key: str,
    resource: Mapping[str, object],
    check: Check | None,
) -> StoredObject:
    """Publishes a copy under a key, with the source's attributes save for what the resource states.

    It stays a composite where the source is one. `check` is made right before it is published.
    """
    check_name(key)
    call.conditions.check_write(bucket.objects.get(key))
    attributes = updated_attributes(source.attributes, resource, replaces=False)
    if isinstance(resource.get("metadata"), dict):
        attributes = replace(attributes, metadata=updated_attributes(Attributes(), resource, replaces=True).metadata)
    return call.buckets.put(
        bucket,
        key,
        content=await call.buckets.storage.join([source.content]),
        etag=source.etag,
        encryption=source.encryption,
        attributes=attributes,
        part_sizes_bytes=source.part_sizes_bytes,
        part_checksums=source.part_checksums,
        check=check,
    )


async def compose_object(call: Call) -> Response:
    """Joins 1 to 32 objects of the bucket into one.

    Hashes in the destination's resource do not count: google-cloud-storage sends there all that it knows of the object
    that is replaced, and Google's own system tests have the service take it.
    """
    bucket, document = call.bucket(), await call.document()
    key = call.address.key
    check_name(key)
    resource = document.get("destination") or {}
    if not isinstance(resource, dict):
        raise JsonError(400, "destination must be an object's resource.", parameter="destination")
    sources = _sources(call, bucket, document)
    call.conditions.check_write(bucket.objects.get(key))
    attributes = stated_attributes(resource, call.query)
    content = await call.buckets.storage.join([source.content for source in sources])
    sizes = tuple(size for source in sources for size in source.part_sizes_bytes or (source.size_bytes,))
    composed = call.buckets.put(
        bucket,
        key,
        content=content,
        etag=f"{_digest(sources)}-{len(sizes)}",
        attributes=attributes,
        part_sizes_bytes=sizes,
        check=call.conditions.check,
    )
    if document.get("deleteSourceObjects") is True:
        for source in sources:
            if source.key != key and bucket.objects.get(source.key) is source:  # Not what replaced it meanwhile.
                call.buckets.delete(bucket, source.key)
    return call.answer_with(bucket, composed)


def _digest(sources: list[StoredObject]) -> str:
    """Returns what stands where S3 has the MD5 of the parts' MD5s: those of composites are not known."""
    joined = b"".join(source.etag.encode() for source in sources)
    return hashlib.md5(joined, usedforsecurity=False).hexdigest()


def _sources(call: Call, bucket: Bucket, document: Mapping[str, object]) -> list[StoredObject]:
    """Returns the objects that a compose request names, if their conditions hold."""
    stated = document.get("sourceObjects")
    if not isinstance(stated, list) or not 1 <= len(stated) <= SOURCES_LIMIT:
        count = len(stated) if isinstance(stated, list) else 0
        raise JsonError(
            400,
            f"The number of source components provided ({count}) is not from 1 to {SOURCES_LIMIT}.",
            parameter="sourceObjects",
        )
    sources: list[StoredObject] = []
    for entry in stated:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise JsonError(400, "Required: sourceObjects.name.", reason="required", parameter="sourceObjects.name")
        generation = entry.get("generation")
        source = call.object_in(bucket, name, None if generation is None else str(generation))
        conditions = entry.get("objectPreconditions") or {}
        if not isinstance(conditions, dict):
            raise JsonError(
                400, "objectPreconditions must be an object.", parameter="sourceObjects.objectPreconditions"
            )
        match = conditions.get("ifGenerationMatch")
        if match is not None:
            Preconditions.of({"ifGenerationMatch": str(match)}, ("ifGenerationMatch", "", "", "")).check_write(source)
        sources.append(source)
    return sources
