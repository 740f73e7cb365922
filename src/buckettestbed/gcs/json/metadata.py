"""What the body of a JSON request states about an object: its metadata, and the hashes its bytes shall have."""

from collections.abc import Mapping
from dataclasses import replace

from buckettestbed.gcs.hashes import Stated, parse_hash
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.resources import CONTENT_FIELDS
from buckettestbed.gcs.limits import METADATA_LIMIT_BYTES, STORAGE_CLASSES
from buckettestbed.model.objects import Attributes

__all__ = ["stated_attributes", "stated_hashes", "switched_off", "updated_attributes"]

_HASH_FIELDS = {"crc32c": "crc32c", "md5Hash": "md5"}

_KNOWN = frozenset(
    [
        *CONTENT_FIELDS,
        *_HASH_FIELDS,
        "bucket",
        "componentCount",
        "etag",
        "generation",
        "id",
        "kind",
        "mediaLink",
        "metadata",
        "metageneration",
        "name",
        "owner",
        "selfLink",
        "size",
        "storageClass",
        "timeCreated",
        "timeFinalized",
        "timeStorageClassUpdated",
        "updated",
    ]
)
"""Fields that are kept, or that the service alone decides; clients send back what they were told."""


def stated_attributes(resource: Mapping[str, object], query: Mapping[str, str], content_type: str = "") -> Attributes:
    """Returns the attributes of an object to be.

    Args:
        resource: the request's object resource; what GCS decides itself (size, links) does not count.
        query: the request's parameters, of which `contentEncoding` counts.
        content_type: of the bytes, where the resource states none.

    Raises:
        JsonError: 400, a field has another type than GCS's, holds a control character, or is too large.
    """
    attributes = updated_attributes(Attributes(), resource, replaces=True)
    headers = dict(attributes.headers)
    if query.get("contentEncoding") and "content-encoding" not in headers:
        headers["content-encoding"] = _text("contentEncoding", query["contentEncoding"])
    if content_type and "content-type" not in headers:
        headers["content-type"] = content_type
    return replace(attributes, headers=headers)


def updated_attributes(attributes: Attributes, resource: Mapping[str, object], *, replaces: bool) -> Attributes:
    """Returns attributes with the fields that a resource states.

    Args:
        attributes: as they are.
        resource: null or an empty text removes a field, null an entry of `metadata` or all of it.
        replaces: whether fields and entries that the resource does not name are removed.

    Raises:
        JsonError: 400, a field has another type than GCS's, holds a control character, or is too large; 501, a field
            asks for what there is not, such as a hold or a key.
    """
    for field, value in resource.items():
        if field not in _KNOWN and not switched_off(value):
            raise JsonError(501, f"The testbed's objects have no {field}.", parameter=field)
    headers = {} if replaces else dict(attributes.headers)
    for field, header in CONTENT_FIELDS.items():
        stated = _text(field, resource[field]) if resource.get(field) is not None else ""
        if stated:
            headers[header] = stated
        elif field in resource:
            headers.pop(header, None)
    storage_class = attributes.storage_class
    if resource.get("storageClass") is not None:
        storage_class = _text("storageClass", resource["storageClass"])
        if storage_class not in STORAGE_CLASSES:
            raise _invalid("storageClass", f"{storage_class!r} is none of {', '.join(sorted(STORAGE_CLASSES))}")
    return Attributes(
        headers=headers,
        metadata=_metadata({} if replaces else attributes.metadata, resource),
        checksums=attributes.checksums,
        checksum_type=attributes.checksum_type,
        storage_class=storage_class,
    )


def switched_off(value: object) -> bool:
    """Returns whether a setting turns nothing on: null, false, zero, or a mapping or list of such."""
    if isinstance(value, dict):
        return all(switched_off(inner) for inner in value.values())
    return value in (None, False, 0, "0", "", [])


def _metadata(before: Mapping[str, str], resource: Mapping[str, object]) -> dict[str, str]:
    stated = resource.get("metadata", {})
    if stated is None:
        return {}
    if not isinstance(stated, dict):
        raise _invalid("metadata", "it must be a mapping of texts")
    metadata = dict(before)
    for name, value in stated.items():
        if value is None:
            metadata.pop(name, None)
        else:
            metadata[_text("metadata", name)] = _text(f"metadata.{name[:64]}", value)
    size_bytes = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size_bytes > METADATA_LIMIT_BYTES:
        raise _invalid("metadata", f"it has {size_bytes} bytes; at most {METADATA_LIMIT_BYTES} are allowed")
    return metadata


def stated_hashes(resource: Mapping[str, object]) -> Stated:
    """Returns the digests that a resource states of the object's bytes; raises InvalidHashError."""
    return frozenset(
        (algorithm, parse_hash(algorithm, _text(field, resource[field])))
        for field, algorithm in _HASH_FIELDS.items()
        if resource.get(field) is not None
    )


def _text(field: str, value: object) -> str:
    """Returns a text; control characters are refused because what is stated here is sent as a header elsewhere."""
    if not isinstance(value, str):
        raise _invalid(field, f"it is {type(value).__name__}, expected a text")
    if any(character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff" for character in value):
        raise _invalid(field, "it holds a control character or is not valid Unicode")
    return value


def _invalid(field: str, why: str) -> JsonError:
    return JsonError(400, f"Invalid value for field {field}: {why}.", parameter=field)
