"""Buckets and objects as the JSON API shows them. *Source*: Cloud Storage, JSON API reference, object and bucket
resource representations."""

import base64
import time
from urllib.parse import quote

from bucketbench.testbed.gcs.hashes import base64_text, md5_of
from bucketbench.testbed.model.objects import Bucket, StoredObject

__all__ = ["BUCKET_ETAG", "CONTENT_FIELDS", "bucket_resource", "object_etag", "object_resource", "timestamp"]

CONTENT_FIELDS = {
    "contentType": "content-type",
    "cacheControl": "cache-control",
    "contentDisposition": "content-disposition",
    "contentEncoding": "content-encoding",
    "contentLanguage": "content-language",
}
"""Fields that describe the content, with the header that each is over HTTP."""

BUCKET_ETAG = "CAE="
"""Of a bucket whose metageneration is 1, which none here ever leaves."""


def timestamp(seconds: float) -> str:
    """Returns seconds since the epoch as RFC 3339 has them, in UTC, to the millisecond."""
    milliseconds = int(seconds * 1000)
    moment = time.gmtime(milliseconds // 1000)
    return (
        f"{moment.tm_year:04}-{moment.tm_mon:02}-{moment.tm_mday:02}T"
        f"{moment.tm_hour:02}:{moment.tm_min:02}:{moment.tm_sec:02}.{milliseconds % 1000:03}Z"
    )


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


def object_resource(bucket_name: str, found: StoredObject, endpoint: str) -> dict[str, object]:
    """Returns an object's resource.

    Args:
        bucket_name: its bucket.
        found: the object.
        endpoint: scheme and host as the client reached them, for links.
    """
    name, generation = quote(found.key, safe=""), str(found.generation)
    path = f"/storage/v1/b/{bucket_name}/o/{name}"
    created = timestamp(found.created_s)
    md5 = md5_of(found)
    headers = found.attributes.headers
    resource: dict[str, object] = {
        "kind": "storage#object",
        "id": f"{bucket_name}/{found.key}/{generation}",
        "selfLink": endpoint + path,
        "mediaLink": f"{endpoint}/download{path}?generation={generation}&alt=media",
        "name": found.key,
        "bucket": bucket_name,
        "generation": generation,
        "metageneration": str(found.metageneration),
        "storageClass": found.attributes.storage_class,
        "size": str(found.size_bytes),
        "crc32c": base64_text(found.content.crc32c),
        "etag": object_etag(found),
        "timeCreated": created,
        "updated": timestamp(found.modified_s),
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
    }
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
