"""Buckets and objects as the JSON API shows them. *Source*: Cloud Storage, JSON API reference, object and bucket
resource representations."""

import base64
import re
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from urllib.parse import quote

from buckettestbed.gcs.hashes import base64_text
from buckettestbed.model.objects import Bucket, StoredObject

__all__ = [
    "BUCKET_ETAG",
    "CONTENT_FIELDS",
    "bucket_resource",
    "is_exact",
    "object_etag",
    "object_resource",
    "timestamp",
]

CONTENT_FIELDS = {
    "contentType": "content-type",
    "cacheControl": "cache-control",
    "contentDisposition": "content-disposition",
    "contentEncoding": "content-encoding",
    "contentLanguage": "content-language",
}
"""Fields that describe the content, with the header that each is over HTTP."""

_PLAIN = re.compile("[A-Za-z0-9_.~/-]*")

_LINKS = frozenset({"*", "selfLink", "mediaLink"})
_TIMES = frozenset({"*", "updated", "timeCreated", "timeStorageClassUpdated", "timeFinalized"})
_VALIDATORS = frozenset({"*", "etag", "crc32c", "md5Hash", "componentCount"})
"""Groups of fields that are costly enough to be left out of a listing that does not select them."""

_CHEAP: dict[str, Callable[[StoredObject], str]] = {
    "name": lambda found: found.key,
    "generation": lambda found: str(found.generation),
    "metageneration": lambda found: str(found.metageneration),
    "storageClass": lambda found: found.attributes.storage_class,
    "size": lambda found: str(found.size_bytes),
}
"""Fields that fast listings select, in the order of a whole resource; one that selects no other gets no other made."""

BUCKET_ETAG = "CAE="
"""Of a bucket whose metageneration is 1, which none here ever leaves."""


def timestamp(seconds: float) -> str:
    """Returns seconds since the epoch as RFC 3339 has them, in UTC, to the millisecond."""
    milliseconds = int(seconds * 1000)
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """Returns a whole second as text; objects that are listed together were often written in the same."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def is_exact(wanted: Mapping[str, object]) -> bool:
    """Returns whether `object_resource` makes just these fields, and nothing is selected below any of them."""
    return wanted.keys() <= _CHEAP.keys() and not any(wanted.values())


def _path_segment(key: str) -> str:
    """Returns a key as one segment of a path; most hold nothing to encode but slashes."""
    return key.replace("/", "%2F") if _PLAIN.fullmatch(key) else quote(key, safe="")


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def object_etag(found: StoredObject) -> str:
    """Returns the JSON API's ETag of an object, which changes with its metadata too.

    *Source*: what GCS sends, observed: base64 of the generation and metageneration as two varint fields.
    """
    return base64.b64encode(b"\x08%s\x10%s" % (_varint(found.generation), _varint(found.metageneration))).decode()


def object_resource(
    bucket_name: str, found: StoredObject, endpoint: str, wanted: AbstractSet[str] | None = None
) -> dict[str, object]:
    """Returns an object's resource.

    Args:
        bucket_name: its bucket.
        found: the object.
        endpoint: scheme and host as the client reached them, for links.
        wanted: fields that will be looked at, None for all; what is costly and not wanted is left out.
    """
    if wanted is not None and wanted <= _CHEAP.keys():
        return {name: describe(found) for name, describe in _CHEAP.items() if name in wanted}
    headers, generation = found.attributes.headers, str(found.generation)
    resource: dict[str, object] = {
        "kind": "storage#object",
        "id": f"{bucket_name}/{found.key}/{generation}",
        "name": found.key,
        "bucket": bucket_name,
        "generation": generation,
        "metageneration": str(found.metageneration),
        "storageClass": found.attributes.storage_class,
        "size": str(found.size_bytes),
    }
    if wanted is None or not wanted.isdisjoint(_LINKS):
        path = f"/storage/v1/b/{bucket_name}/o/{_path_segment(found.key)}"
        resource["selfLink"] = endpoint + path
        resource["mediaLink"] = f"{endpoint}/download{path}?generation={generation}&alt=media"
    if wanted is None or not wanted.isdisjoint(_TIMES):
        created = timestamp(found.created_s)
        resource["updated"] = created if found.metageneration == 1 else timestamp(found.modified_s)
        resource["timeCreated"] = resource["timeStorageClassUpdated"] = resource["timeFinalized"] = created
    if wanted is None or not wanted.isdisjoint(_VALIDATORS):
        resource["etag"] = object_etag(found)
        resource["crc32c"] = base64_text(found.content.crc32c)
        md5 = found.md5
        if md5 is not None:
            resource["md5Hash"] = base64_text(md5)
        elif found.part_sizes_bytes:
            resource["componentCount"] = len(found.part_sizes_bytes)
    for field, header in CONTENT_FIELDS.items():
        if header in headers:
            resource[field] = headers[header]
    if found.attributes.metadata:
        resource["metadata"] = dict(found.attributes.metadata)
    return resource


def bucket_resource(bucket: Bucket, endpoint: str) -> dict[str, object]:
    """Returns a bucket's resource: all are alike, in the multi-region US, of the standard class, without versions."""
    created = timestamp(bucket.created_s)
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{endpoint}/storage/v1/b/{bucket.name}",
        "projectNumber": "0",
        "name": bucket.name,
        "timeCreated": created,
        "updated": created,
        "metageneration": "1",
        "iamConfiguration": {
            "bucketPolicyOnly": {"enabled": True},
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "inherited",
        },
        "location": "US",
        "locationType": "multi-region",
        "rpo": "DEFAULT",
        "storageClass": "STANDARD",
        "etag": BUCKET_ETAG,
    }
