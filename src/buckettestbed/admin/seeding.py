"""Objects put straight into the model: as many as a listing needs, where that many PUTs would take minutes."""

import json

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.errors import BucketMissingError
from buckettestbed.model.objects import Attributes

__all__ = ["MAX_SEEDED_BYTES", "SeedError", "seed_objects"]

MAX_SEEDED_BYTES = 1 << 20
"""Largest object that is put so. *Source*: ours; it is for many small ones, and holds up other requests meanwhile."""

_MAX_KEY_BYTES = 1024
"""*Source*: Amazon S3, "Object key naming", and Cloud Storage, "Object names": 1,024 bytes of UTF-8 for both."""


class SeedError(ValueError):
    """What is to be put is no list of objects; the message says what is wrong."""


async def seed_objects(buckets: Buckets, body: bytes) -> int:
    """Puts objects of zero bytes into a bucket, replacing those of the same key, and returns how many they were.

    A million takes about 14 s, in which other requests are answered late.

    Args:
        buckets: the model.
        body: JSON, a mapping of `bucket`, its name, and `objects`, a list of pairs of key and size in bytes.

    Raises:
        SeedError: before anything was put.
    """
    name, objects = _parsed(body)
    try:
        bucket = buckets.bucket(name)
    except BucketMissingError:
        raise SeedError(f"there is no bucket {name!r}") from None
    for key, size_bytes in objects:
        incoming = buckets.receive()
        incoming.write(bytes(size_bytes))
        received = await incoming.finish()
        buckets.put(bucket, key, content=received.content, etag=buckets.etag(received), attributes=Attributes())
    return len(objects)


def _parsed(body: bytes) -> tuple[str, list[tuple[str, int]]]:
    value = json.loads(body)
    if not isinstance(value, dict) or value.keys() != {"bucket", "objects"} or not isinstance(value["objects"], list):
        raise SeedError('expected a mapping such as {"bucket": "b", "objects": [["key", 0]]}')
    for entry in value["objects"]:
        if not isinstance(entry, list) or len(entry) != 2 or not _is_key(entry[0]) or not _is_size(entry[1]):
            raise SeedError(
                f"one of the objects is {json.dumps(entry)[:200]}; expected a pair of a key of 1 to {_MAX_KEY_BYTES} "
                f"bytes and a size of 0 to {MAX_SEEDED_BYTES} bytes"
            )
    return str(value["bucket"]), [(key, size_bytes) for key, size_bytes in value["objects"]]


def _is_key(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return 0 < len(value.encode()) <= _MAX_KEY_BYTES
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
        return False


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEEDED_BYTES
