"""What a path of the JSON API means, which operation a request asks for, and what such a request may ask.

A bucket's and an object's name are one percent-encoded segment each. As for the other APIs, the tables name what is
served: a parameter or a header that they lack is refused, because whoever sent it wants what is not done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from buckettestbed.operations.routes import UNKNOWN, Values, taking

__all__ = [
    "OPERATIONS",
    "Address",
    "is_download",
    "operation_name",
    "parse_path",
    "unserved_header",
    "unserved_parameter",
]

_ROOTS = {
    b"/storage/v1/": "metadata",
    b"/upload/storage/v1/": "upload",
    b"/resumable/upload/storage/v1/": "upload",
    b"/download/storage/v1/": "download",
}
"""*Source*: Cloud Storage, JSON API overview, request endpoints; the second of uploads is of older clients."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A path taken apart.

    `root` is `metadata`, `upload`, `download` or `batch`; `form` what follows it, with `B` and `K` for names, such as
    `b/B/o/K/compose`; `to_bucket` and `to_key` are a copy's destination.
    """

    root: str
    form: str = ""
    bucket: str = ""
    key: str = ""
    to_bucket: str = ""
    to_key: str = ""


def parse_path(raw_path: bytes) -> Address | None:
    """Returns what a path means, or None where it is none of the JSON API's, or not percent-encoded UTF-8."""
    if raw_path.rstrip(b"/") == b"/batch/storage/v1" or raw_path.startswith(b"/batch/storage/v1?"):
        return Address(root="batch")
    for prefix, root in _ROOTS.items():
        if raw_path.startswith(prefix):
            try:
                segments = [unquote_to_bytes(segment).decode() for segment in raw_path[len(prefix) :].split(b"/")]
            except UnicodeDecodeError:
                return None
            return _address(root, segments)
    return None


def _address(root: str, segments: list[str]) -> Address | None:
    """Returns the address; a name follows each `b` and `o` that is not itself a name."""
    form: list[str] = []
    names: dict[str, list[str]] = {"b": [], "o": []}
    pending: str | None = None
    for segment in segments:
        if pending is not None:
            if not segment:
                return None
            names[pending].append(segment)
            form.append("B" if pending == "b" else "K")
            pending = None
        else:
            form.append(segment)
            pending = segment if segment in names else None
    buckets, keys = names["b"], names["o"]
    if len(buckets) > 2 or len(keys) > 2:
        return None
    return Address(
        root=root,
        form="/".join(form),
        bucket=buckets[0] if buckets else "",
        key=keys[0] if keys else "",
        to_bucket=buckets[1] if len(buckets) > 1 else "",
        to_key=keys[1] if len(keys) > 1 else "",
    )


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

_EVERYWHERE = {
    **taking("access_token", "fields", "key", "oauth_token", "prettyPrint", "quotaUser", "userIp", "userProject"),
    "alt": {"json", "media"},
}
"""*Source*: Cloud Storage, JSON API overview, standard query parameters. A token in the query is not looked at."""

_OFF = ("", "false", "False")
_ACL = {"private", "projectPrivate", "bucketOwnerFullControl", "bucketOwnerRead"}
"""Predefined access control lists that grant nobody outside the project anything."""

_METAGENERATION = taking("ifMetagenerationMatch", "ifMetagenerationNotMatch")
_CONDITIONS = {**_METAGENERATION, **taking("ifGenerationMatch", "ifGenerationNotMatch")}
_SOURCE = taking(
    "ifSourceGenerationMatch",
    "ifSourceGenerationNotMatch",
    "ifSourceMetagenerationMatch",
    "ifSourceMetagenerationNotMatch",
    "sourceGeneration",
)
_PROJECTION = taking("projection")
_OF_A_BUCKET: Values = {"predefinedAcl": _ACL, "predefinedDefaultObjectAcl": _ACL, **_PROJECTION}
_OF_AN_OBJECT: Values = {"predefinedAcl": _ACL, "overrideUnlockedRetention": _OFF, **_PROJECTION}
_OF_A_COPY: Values = {**_CONDITIONS, **_SOURCE, **_PROJECTION, "destinationPredefinedAcl": _ACL}
_READ: Values = {**_CONDITIONS, **_PROJECTION, **taking("generation"), "softDeleted": _OFF}
_SESSION = taking("name", "uploadType", "upload_id")
_UPLOADED: Values = {**_CONDITIONS, **_OF_AN_OBJECT, **_SESSION, **taking("contentEncoding")}

_TAKES: Mapping[str, Values] = {
    "batch": {},
    "cancel_session": _UPLOADED,
    "compose_object": {**_CONDITIONS, "destinationPredefinedAcl": _ACL},
    "copy_object": {**_OF_A_COPY, **taking("maxBytesRewrittenPerCall", "rewriteToken")},
    "create_bucket": {**_OF_A_BUCKET, **taking("project"), "enableObjectRetention": _OFF},
    "delete_bucket": _METAGENERATION,
    "delete_object": {**_CONDITIONS, **taking("generation")},
    "get_bucket_policy": taking("optionsRequestedPolicyVersion"),
    "get_object": _READ,
    "get_object_range": _READ,
    "get_storage_layout": taking("prefix"),
    "head_bucket": {**_METAGENERATION, **_PROJECTION, "softDeleted": _OFF},
    "head_object": _READ,
    "list_buckets": {
        **taking("project", "prefix", "maxResults", "pageToken", "projection", "returnPartialSuccess"),
        "softDeleted": _OFF,
    },
    "list_objects": {
        **taking(
            "delimiter",
            "endOffset",
            "includeFoldersAsPrefixes",
            "includeTrailingDelimiter",
            "matchGlob",
            "maxResults",
            "pageToken",
            "prefix",
            "projection",
            "startOffset",
            "versions",
        ),
        "filter": {""},
        "softDeleted": _OFF,
    },
    "move_object": {**_CONDITIONS, **_SOURCE, **_PROJECTION},
    "put_object": _UPLOADED,
    "query_session": _UPLOADED,
    "start_session": _UPLOADED,
    "test_permissions": taking("permissions"),
    "update_bucket": {**_METAGENERATION, **_OF_A_BUCKET},
    "update_object": {**_CONDITIONS, **_OF_AN_OBJECT, **taking("generation")},
    "upload_chunk": _UPLOADED,
}
"""The parameters that an operation takes beside those of all, each with its values, None for any; of those that would
turn on what there is not, the values that leave it off."""

_HEADERS = frozenset(
    [
        "x-goog-api-client",
        "x-goog-api-key",
        "x-goog-gcs-idempotency-token",
        "x-goog-hash",
        "x-goog-request-params",
        "x-goog-request-reason",
        "x-goog-user-project",
    ]
)
"""Google's headers that any request may have. Among the others are those of a client's encryption keys."""

_READS = frozenset({"get_object", "get_object_range", "head_object"})
"""Operations that look at conditions on ETags."""


def unserved_parameter(operation: str, query: Mapping[str, str]) -> str | None:
    """Returns a parameter that an operation does not take, or not with its value, or None."""
    takes = _TAKES[operation]
    for name, value in query.items():
        if name not in takes and name not in _EVERYWHERE:
            return name
        values = takes[name] if name in takes else _EVERYWHERE[name]
        if values is not None and value not in values:
            return name
    return None


def unserved_header(operation: str, headers: Mapping[str, str]) -> str | None:
    """Returns a header that asks for what an operation does not do, or None.

    Args:
        operation: its name.
        headers: of the request, names in lower case.
    """
    for name in headers:
        if name.startswith("x-goog-") and name not in _HEADERS and not name.startswith("x-goog-custom-audit-"):
            return name
        if name.startswith("if-") and operation not in _READS:
            return name
    return None


def is_download(address: Address, query: Mapping[str, str]) -> bool:
    """Returns whether an object's bytes are asked for, not its metadata."""
    return address.form == "b/B/o/K" and (address.root == "download" or query.get("alt") == "media")


def operation_name(method: str, address: Address, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Returns the operation's name, or `unknown` for a method and a path that the testbed does not serve."""
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
