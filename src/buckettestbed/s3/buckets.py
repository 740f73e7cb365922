"""Operations on buckets themselves."""

import re

from buckettestbed.model.errors import BucketMissingError
from buckettestbed.model.objects import Bucket
from buckettestbed.rest.call import Call, xml_response
from buckettestbed.rest.listing import after_token
from buckettestbed.rest.tokens import token_after
from buckettestbed.s3.errors import S3Error
from buckettestbed.s3.listing import OWNER
from buckettestbed.s3.names import is_name_of_s3
from buckettestbed.s3.xml import parse
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import children, document, element, text, timestamp

__all__ = [
    "create_bucket",
    "delete_bucket",
    "get_bucket_location",
    "get_bucket_versioning",
    "head_bucket",
    "list_buckets",
    "region_of",
]

DEFAULT_REGION = "us-east-1"
"""The region of a bucket whose creation asked for none. *Source*: Amazon S3 API reference, CreateBucket."""

_PAGE_LIMIT = 10_000
"""*Source*: Amazon S3 API reference, ListBuckets, max-buckets: 1 to 10,000."""

_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d\Z")

_RENAMED_REGIONS = {"EU": "eu-west-1"}
"""*Source*: Amazon S3 API reference, CreateBucket and GetBucketLocation: the constraint EU means eu-west-1."""


def region_of(bucket: Bucket) -> str:
    """Returns the region that a bucket was created in, and that requests for it are signed for."""
    return bucket.location or DEFAULT_REGION


async def list_buckets(call: Call) -> Response:
    """Lists the buckets, those that begin with a prefix and lie in a region where the request asks for that, page by
    page where it states a size."""
    prefix, region, token = (call.query.get(name) for name in ("prefix", "bucket-region", "continuation-token"))
    limit = call.integer("max-buckets", _PAGE_LIMIT, least=1, most=_PAGE_LIMIT)
    after = after_token(token) if token is not None else ""
    listed = [
        bucket
        for bucket in call.buckets
        if bucket.name > after and bucket.name.startswith(prefix or "") and region in (None, region_of(bucket))
    ]
    described = "".join(map(_described, listed[:limit]))
    content = [OWNER, f"<Buckets>{described}</Buckets>"]
    if len(listed) > limit:
        content.append(element("ContinuationToken", token_after(listed[limit - 1].name)))
    if prefix is not None:
        content.append(element("Prefix", prefix))
    return xml_response(document("ListAllMyBucketsResult", content))


def _described(bucket: Bucket) -> str:
    fields = [
        element("Name", bucket.name),
        element("CreationDate", timestamp(bucket.created_s)),
        element("BucketRegion", region_of(bucket)),
    ]
    return f"<Bucket>{''.join(fields)}</Bucket>"


async def create_bucket(call: Call) -> Response:
    """Makes a bucket in the region that the body's location constraint names."""
    body = await call.xml_body(64 << 10)
    location = _location_constraint(body) if body.strip() else ""
    if not is_name_of_s3(call.bucket_name):
        raise S3Error("InvalidBucketName", fields={"BucketName": call.bucket_name})
    call.buckets.create_bucket(call.bucket_name, location=location)
    return Response(status=200, headers=[(b"location", b"/" + call.bucket_name.encode())])


def _location_constraint(body: bytes) -> str:
    """Returns the region that a CreateBucketConfiguration asks for, empty for none; raises MalformedXML or
    InvalidLocationConstraint."""
    fields = {name: (found.text or "").strip() for name, found in children(parse(body, "CreateBucketConfiguration"))}
    if unserved := fields.keys() - {"LocationConstraint"}:
        raise S3Error("NotImplemented", f"The testbed makes no bucket with {min(unserved)}.")
    location = _RENAMED_REGIONS.get(asked := fields.get("LocationConstraint", ""), asked)
    if location and not _REGION.match(location):
        raise S3Error("InvalidLocationConstraint", fields={"LocationConstraint": location})
    return location


async def delete_bucket(call: Call) -> Response:
    """Removes an empty bucket."""
    call.buckets.delete_bucket(call.bucket_name)
    return Response(status=204)


async def head_bucket(call: Call) -> Response:
    """Says whether a bucket exists, and its region."""
    headers = [(b"x-amz-bucket-region", region_of(call.bucket()).encode())]
    return Response(status=200, headers=headers, content_length=0)


async def get_bucket_location(call: Call) -> Response:
    """Answers with the bucket's region, or with the empty constraint, which means us-east-1."""
    region = region_of(call.bucket())
    return xml_response(document("LocationConstraint", [] if region == DEFAULT_REGION else [text(region)]))


async def get_bucket_versioning(call: Call) -> Response:
    """Answers that versioning was never enabled."""
    if call.buckets.find(call.bucket_name) is None:
        raise BucketMissingError(call.bucket_name)
    return xml_response(document("VersioningConfiguration", []))
