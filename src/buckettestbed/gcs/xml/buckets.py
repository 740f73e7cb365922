"""Operations on buckets in the XML API."""

from buckettestbed.gcs.names import check_bucket_name
from buckettestbed.gcs.xml.listing import OWNER
from buckettestbed.gcs.xml.writing import NAMESPACE
from buckettestbed.rest.call import Call, xml_response
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import document, element, timestamp

__all__ = [
    "create_bucket",
    "delete_bucket",
    "get_bucket_location",
    "get_bucket_storage_class",
    "get_bucket_versioning",
    "head_bucket",
    "list_buckets",
]

_LOCATION = "US"
"""Where every bucket lies. *Source*: Cloud Storage documentation, create buckets: the default location."""

_STORAGE_CLASS = "STANDARD"


async def list_buckets(call: Call) -> Response:
    """Lists all buckets, whatever the project."""
    described = "".join(
        f"<Bucket>{element('Name', bucket.name)}{element('CreationDate', timestamp(bucket.created_s))}</Bucket>"
        for bucket in call.buckets
    )
    content = [OWNER, f"<Buckets>{described}</Buckets>"]
    return xml_response(document("ListAllMyBucketsResult", content, namespace=NAMESPACE))


async def create_bucket(call: Call) -> Response:
    """Makes a bucket, wherever the body's location constraint would have it."""
    await call.xml_body(64 << 10)
    check_bucket_name(call.bucket_name)
    call.buckets.create_bucket(call.bucket_name)
    return Response(status=200)


async def delete_bucket(call: Call) -> Response:
    """Removes an empty bucket."""
    call.buckets.delete_bucket(call.bucket_name)
    return Response(status=204)


async def head_bucket(call: Call) -> Response:
    """Says whether a bucket exists."""
    call.bucket()
    headers = [(b"x-goog-metageneration", b"1"), (b"x-goog-storage-class", _STORAGE_CLASS.encode())]
    return Response(status=200, headers=headers, content_length=0)


async def get_bucket_location(call: Call) -> Response:
    """Answers with the one location that there is."""
    call.bucket()
    return xml_response(_text_document("LocationConstraint", _LOCATION))


async def get_bucket_storage_class(call: Call) -> Response:
    """Answers with the default storage class."""
    call.bucket()
    return xml_response(_text_document("StorageClass", _STORAGE_CLASS))


async def get_bucket_versioning(call: Call) -> Response:
    """Answers that versioning was never enabled."""
    call.bucket()
    return xml_response(document("VersioningConfiguration", [], namespace=None))


def _text_document(name: str, text: str) -> bytes:
    return document(name, [text], namespace=None)
