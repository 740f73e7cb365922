"""Which operation a request asks for, by method, subresource and headers, out of a dialect's table."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["UNKNOWN", "Routes"]

UNKNOWN = "unknown"
"""Name of an operation that a dialect does not serve."""


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The operations of a dialect; their names are those of the testbed's counters.

    `service`, `bucket` and `object` are by method; the subresources by method and query parameter, asked in the order
    of the request's parameters. A request with a parameter in `unserved` is `unknown`, so that a client never takes a
    listing for its answer. `copy_header` makes a PUT a copy; `part_copy` is the name of a part made so.
    """

    service: Mapping[str, str]
    bucket: Mapping[str, str]
    object: Mapping[str, str]
    bucket_subresources: Mapping[tuple[str, str], str]
    object_subresources: Mapping[tuple[str, str], str]
    unserved: Collection[str]
    copy_header: str
    part_copy: str

    @property
    def names(self) -> frozenset[str]:
        """Every name that `name` returns, save `unknown`."""
        tables = (self.service, self.bucket, self.object, self.bucket_subresources, self.object_subresources)
        named = {name for table in tables for name in table.values()}
        implied = {"copy_object", "get_object_range", "list_objects_v1", "list_objects_v2", "upload_part"}
        return frozenset(named | implied | {self.part_copy}) - {UNKNOWN}

    def name(self, method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
        """Returns the operation's name, or `unknown` for what the testbed does not serve."""
        if not bucket:
            return self.service.get(method, UNKNOWN)
        if query and any(name in self.unserved for name in query):
            return UNKNOWN
        subresources = self.object_subresources if key else self.bucket_subresources
        for name in query:
            if (found := subresources.get((method, name))) is not None:
                return found
        if not key:
            if method == "GET":
                return "list_objects_v2" if query.get("list-type") == "2" else "list_objects_v1"
            return self.bucket.get(method, UNKNOWN)
        if method == "PUT":
            is_copy = self.copy_header in headers
            if "uploadId" in query:
                return self.part_copy if is_copy else "upload_part"
            return "copy_object" if is_copy else "put_object"
        if method == "GET" and "range" in headers:
            return "get_object_range"
        return self.object.get(method, UNKNOWN)
