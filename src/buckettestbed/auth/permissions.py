"""What the sender of a request may do: everything, only read, or, without credentials, read public buckets."""

from collections.abc import Iterable

from buckettestbed.serving.dialect import Operation
from buckettestbed.serving.messages import Request

__all__ = ["anonymous_may", "is_write"]

_PUBLIC_OPERATIONS = frozenset(
    {
        "get_object",
        "get_object_attributes",
        "get_object_range",
        "head_bucket",
        "head_object",
        "list_objects",
        "list_objects_v1",
        "list_objects_v2",
    }
)
"""What anyone may do with a public bucket. *Source*: Cloud Storage, making data public: allUsers with Storage Object
Viewer may get and list objects; a bucket policy of S3 grants the same by s3:GetObject and s3:ListBucket."""


def is_write(request: Request, operation: Operation) -> bool:
    """Returns whether a request asks for a change: those of both providers that do not are GET or HEAD, save for a
    batch, whose parts are looked at one by one when they are answered."""
    return request.method not in ("GET", "HEAD") and operation.name != "batch"


def anonymous_may(operation: Operation, public_buckets: Iterable[str]) -> bool:
    """Returns whether an operation needs no credentials."""
    return operation.name in _PUBLIC_OPERATIONS and operation.bucket in public_buckets
