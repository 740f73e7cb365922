"""Operations on buckets themselves."""

from bucketbench.testbed.model.objects import BucketMissingError
from bucketbench.testbed.rest.call import Call, xml_response
from bucketbench.testbed.s3.listing import OWNER
from bucketbench.testbed.serving.messages import Response
from bucketbench.testbed.serving.xml import document, element, timestamp

__all__ = [
    "create_bucket",
    "delete_bucket",
    "get_bucket_location",
    "get_bucket_versioning",
    "head_bucket",
    "list_buckets",
]

REGION = "us-east-1"
"""The region of every bucket: the one whose location constraint S3 leaves empty, so that any client's default fits."""

_REGION_HEADER = (b"x-amz-bucket-region", REGION.encode())


async def list_buckets(call: Call) -> Response:
    """Lists all buckets."""
    described = "".join(
        f"<Bucket>{element('Name', bucket.name)}{element('CreationDate', timestamp(bucket.created_s))}</Bucket>"
        for bucket in call.buckets
    )
    return xml_response(document("ListAllMyBucketsResult", [OWNER, f"<Buckets>{described}</Buckets>"]))


async def create_bucket(call: Call) -> Response:
    """Makes a bucket, wherever the body's location constraint would have it."""
    await call.xml_body(64 << 10)
    call.buckets.create_bucket(call.bucket_name)
    return Response(status=200, headers=[(b"location", b"/" + call.bucket_name.encode())])


async def delete_bucket(call: Call) -> Response:
    """Removes an empty bucket."""
    call.buckets.delete_bucket(call.bucket_name)
    return Response(status=204)


async def head_bucket(call: Call) -> Response:
    """Says whether a bucket exists."""
    call.bucket()
    return Response(status=200, headers=[_REGION_HEADER], content_length=0)


async def get_bucket_location(call: Call) -> Response:
    """Answers with the empty constraint, which means us-east-1."""
    call.bucket()
    return xml_response(document("LocationConstraint", []))


async def get_bucket_versioning(call: Call) -> Response:
    """Answers that versioning was never enabled."""
    if call.buckets.find(call.bucket_name) is None:
        raise BucketMissingError(call.bucket_name)
    return xml_response(document("VersioningConfiguration", []))
