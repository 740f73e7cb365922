"""Which S3 operation a request asks for; the names are those of the testbed's counters."""

from collections.abc import Mapping

from bucketbench.testbed.serving.dialect import UNKNOWN

__all__ = ["operation_name"]

_SERVICE = {"GET": "list_buckets"}
_BUCKET = {
    "PUT": "create_bucket",
    "DELETE": "delete_bucket",
    "HEAD": "head_bucket",
}
_OBJECT = {"GET": "get_object", "HEAD": "head_object", "PUT": "put_object", "DELETE": "delete_object"}

_BUCKET_SUBRESOURCES = {
    ("GET", "location"): "get_bucket_location",
    ("GET", "versioning"): "get_bucket_versioning",
    ("GET", "uploads"): "list_uploads",
    ("POST", "delete"): "delete_objects",
}
_OBJECT_SUBRESOURCES = {
    ("POST", "uploads"): "create_upload",
    ("POST", "uploadId"): "complete_upload",
    ("GET", "uploadId"): "list_parts",
    ("DELETE", "uploadId"): "abort_upload",
    ("GET", "attributes"): "get_object_attributes",
}

_UNSERVED = frozenset(
    [
        "accelerate",
        "acl",
        "analytics",
        "cors",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "tagging",
        "torrent",
        "versionId",
        "versions",
        "website",
    ]
)
"""Subresources of S3 that the testbed refuses with NotImplemented, so that a client never takes a listing for its
answer."""


def operation_name(method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Returns the operation's name, or `unknown` for what the testbed does not serve."""
    if not bucket:
        return _SERVICE.get(method, UNKNOWN)
    if query and not _UNSERVED.isdisjoint(query):
        return UNKNOWN
    if not key:
        for name in query:
            if (found := _BUCKET_SUBRESOURCES.get((method, name))) is not None:
                return found
        if method == "GET":
            return "list_objects_v2" if query.get("list-type") == "2" else "list_objects_v1"
        return _BUCKET.get(method, UNKNOWN)
    for name in query:
        if (found := _OBJECT_SUBRESOURCES.get((method, name))) is not None:
            return found
    if method == "PUT":
        is_copy = "x-amz-copy-source" in headers
        if "uploadId" in query:
            return "upload_part_copy" if is_copy else "upload_part"
        return "copy_object" if is_copy else "put_object"
    if method == "GET" and "range" in headers:
        return "get_object_range"
    return _OBJECT.get(method, UNKNOWN)
