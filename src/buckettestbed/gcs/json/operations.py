"""Which operation of the JSON API a request asks for; the names are those of the testbed's counters."""

from collections.abc import Mapping

from buckettestbed.gcs.json.addresses import Address
from buckettestbed.rest.unknown import UNKNOWN

__all__ = ["OPERATIONS", "is_download", "operation_name"]

_METADATA = {
    ("GET", "b"): "list_buckets",
    ("POST", "b"): "create_bucket",
    ("GET", "b/B"): "head_bucket",
    ("PATCH", "b/B"): "update_bucket",
    ("PUT", "b/B"): "update_bucket",
    ("DELETE", "b/B"): "delete_bucket",
    ("GET", "b/B/iam"): "get_bucket_policy",
    ("GET", "b/B/iam/testPermissions"): "test_permissions",
    ("GET", "b/B/storageLayout"): "get_storage_layout",
    ("GET", "b/B/o"): "list_objects",
    ("GET", "b/B/o/K"): "head_object",
    ("PATCH", "b/B/o/K"): "update_object",
    ("PUT", "b/B/o/K"): "update_object",
    ("DELETE", "b/B/o/K"): "delete_object",
    ("POST", "b/B/o/K/compose"): "compose_object",
    ("POST", "b/B/o/K/copyTo/b/B/o/K"): "copy_object",
    ("POST", "b/B/o/K/rewriteTo/b/B/o/K"): "copy_object",
    ("POST", "b/B/o/K/moveTo/o/K"): "move_object",
}
"""Operations by method and form of the path. *Source*: Cloud Storage, JSON API reference."""

_UPLOAD = frozenset({"start_session", "upload_chunk", "query_session", "cancel_session", "put_object"})

OPERATIONS = frozenset({*_METADATA.values(), *_UPLOAD, "get_object", "get_object_range", "batch"})
"""Every name that the JSON API gives an operation."""


def is_download(address: Address, query: Mapping[str, str]) -> bool:
    """Returns whether an object's bytes are asked for, not its metadata."""
    return address.form == "b/B/o/K" and (address.root == "download" or query.get("alt") == "media")


def operation_name(method: str, address: Address, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Returns the operation's name, or `unknown` for what the testbed does not serve."""
    if address.root == "batch":
        return "batch" if method == "POST" else UNKNOWN
    if address.root == "upload":
        return _upload_name(method, address, query, headers)
    read = "GET" if method == "HEAD" else method
    if read == "GET" and is_download(address, query):
        return "get_object_range" if method == "GET" and "range" in headers else "get_object"
    return _METADATA.get((read, address.form), UNKNOWN) if address.root == "metadata" else UNKNOWN


def _upload_name(method: str, address: Address, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    if address.form != "b/B/o":
        return UNKNOWN
    if "upload_id" in query:
        if method == "DELETE":
            return "cancel_session"
        if method in ("PUT", "POST"):
            is_query = headers.get("content-range", "").replace(" ", "").startswith("bytes*/")
            return "query_session" if is_query else "upload_chunk"
        return UNKNOWN
    kind = query.get("uploadType", "")
    if method == "POST" and kind == "resumable":
        return "start_session"
    return "put_object" if method == "POST" and kind in ("media", "multipart") else UNKNOWN
