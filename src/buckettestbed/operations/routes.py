"""Which operation a request asks for, by method, subresource and headers, out of a dialect's table."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["UNKNOWN", "Routes"]

UNKNOWN = "unknown"
"""Name of an operation that a dialect does not serve."""

_SERVICE = {"GET": "list_buckets"}
_BUCKET = {"PUT": "create_bucket", "DELETE": "delete_bucket", "HEAD": "head_bucket"}
_OBJECT = {"GET": "get_object", "HEAD": "head_object", "PUT": "put_object", "DELETE": "delete_object"}
_BUCKET_SUBRESOURCES = {
    ("GET", "location"): "get_bucket_location",
    ("GET", "versioning"): "get_bucket_versioning",
    ("GET", "uploads"): "list_uploads",
}
_OBJECT_SUBRESOURCES = {
    ("POST", "uploads"): "create_upload",
    ("POST", "uploadId"): "complete_upload",
    ("GET", "uploadId"): "list_parts",
    ("DELETE", "uploadId"): "abort_upload",
}
_IMPLIED = {"copy_object", "get_object_range", "list_objects_v1", "list_objects_v2", "upload_part"}


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The operations of a dialect; their names are those of the testbed's counters.

    What S3 and the XML API of GCS both have is in every table. Args are what a dialect has besides: subresources of
    buckets and of objects, by method and query parameter, asked in the order of the request's parameters. A request
    with a parameter in `unserved` is `unknown`, so that a client never takes a listing for its answer. `copy_header`
    makes a PUT a copy; `part_copy` is the name of a part made so.
    """

    bucket: Mapping[tuple[str, str], str] = field(default_factory=dict)
    object: Mapping[tuple[str, str], str] = field(default_factory=dict)
    unserved: Collection[str]
    copy_header: str
    part_copy: str

    @property
    def names(self) -> frozenset[str]:
        """Every name that `name` returns, save `unknown`."""
        tables = (_SERVICE, _BUCKET, _OBJECT, _BUCKET_SUBRESOURCES, _OBJECT_SUBRESOURCES, self.bucket, self.object)
        return frozenset({*_IMPLIED, self.part_copy}.union(*(table.values() for table in tables))) - {UNKNOWN}

    def name(self, method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
        """Returns the operation's name, or `unknown` for what the testbed does not serve."""
        if not bucket:
            return _SERVICE.get(method, UNKNOWN)
        if query and any(name in self.unserved for name in query):
            return UNKNOWN
        known, further = (_OBJECT_SUBRESOURCES, self.object) if key else (_BUCKET_SUBRESOURCES, self.bucket)
        for name in query:
            if (found := known.get((method, name)) or further.get((method, name))) is not None:
                return found
        if not key:
            if method == "GET":
                return "list_objects_v2" if query.get("list-type") == "2" else "list_objects_v1"
            return _BUCKET.get(method, UNKNOWN)
        if method == "PUT":
            is_copy = self.copy_header in headers
            if "uploadId" in query:
                return self.part_copy if is_copy else "upload_part"
            return "copy_object" if is_copy else "put_object"
        if method == "GET" and "range" in headers:
            return "get_object_range"
        return _OBJECT.get(method, UNKNOWN)
