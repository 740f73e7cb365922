"""Which operation of the XML API a request asks for. *Source*: Cloud Storage XML API reference, HTTP headers and query
string parameters, and the methods' pages."""

from buckettestbed.operations.routes import Routes, Served, taking

__all__ = ["OPERATIONS", "ROUTES", "SIGNATURE_PARAMETERS"]

SIGNATURE_PARAMETERS = frozenset(
    [
        "expires",
        "googleaccessid",
        "signature",
        "userproject",
        "x-goog-algorithm",
        "x-goog-credential",
        "x-goog-date",
        "x-goog-expires",
        "x-goog-signature",
        "x-goog-signedheaders",
        "x-goog-user-project",
    ]
)
"""The query of a signed address, version 4 or 2, and who pays."""

_EVERYWHERE = taking(
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-user-agent",
    "x-goog-api-client",
    "x-goog-api-version",
    "x-goog-content-sha256",
    "x-goog-date",
    "x-goog-gcs-idempotency-token",
    "x-goog-project-id",
    "x-goog-request-params",
    "x-goog-request-reason",
    "x-goog-user-project",
)
_CONDITIONS = taking(
    "x-goog-if-generation-match",
    "x-goog-if-generation-not-match",
    "x-goog-if-metageneration-match",
    "x-goog-if-metageneration-not-match",
)
_COPY = taking(
    "x-goog-copy-source-generation",
    "x-goog-copy-source-if-generation-match",
    "x-goog-copy-source-if-generation-not-match",
    "x-goog-copy-source-if-match",
    "x-goog-copy-source-if-metageneration-match",
    "x-goog-copy-source-if-metageneration-not-match",
    "x-goog-copy-source-if-modified-since",
    "x-goog-copy-source-if-none-match",
    "x-goog-copy-source-if-unmodified-since",
    "x-goog-metadata-directive",
)
_ACL = {"x-goog-acl": {"private", "project-private", "bucket-owner-full-control", "bucket-owner-read"}}
"""Those that grant nobody outside the project anything."""

_OBJECT = {**_ACL, **taking("x-goog-storage-class")}
_HASH = taking("x-goog-hash")
_PAGES = taking("prefix", "delimiter", "max-keys", "encoding-type")
_READ = {
    **taking("generation", "response-content-disposition", "response-content-type"),
    "alt": {"media"},  # Of the JSON API, which some append here as well; it asks for what is done anyhow.
}

_SERVED = (
    Served(name="list_buckets", method="GET", target="service"),
    Served(name="create_bucket", method="PUT", target="bucket", headers=_ACL),
    Served(name="delete_bucket", method="DELETE", target="bucket"),
    Served(name="head_bucket", method="HEAD", target="bucket"),
    Served(name="get_bucket_location", method="GET", target="bucket", marks={"location": None}),
    Served(name="get_bucket_storage_class", method="GET", target="bucket", marks={"storageClass": None}),
    Served(name="get_bucket_versioning", method="GET", target="bucket", marks={"versioning": None}),
    Served(name="list_objects_v1", method="GET", target="bucket", takes={**_PAGES, **taking("marker")}),
    Served(
        name="list_objects_v2",
        method="GET",
        target="bucket",
        marks={"list-type": "2"},
        takes={**_PAGES, **taking("continuation-token", "start-after", "fetch-owner")},
    ),
    Served(
        name="list_uploads",
        method="GET",
        target="bucket",
        marks={"uploads": None},
        takes=taking("prefix", "delimiter", "max-uploads", "key-marker", "upload-id-marker", "encoding-type"),
    ),
    Served(name="get_object", method="GET", target="object", takes=_READ, headers=_CONDITIONS),
    Served(
        name="get_object_range",
        method="GET",
        target="object",
        mark_header="range",
        takes=_READ,
        headers=_CONDITIONS,
    ),
    Served(name="head_object", method="HEAD", target="object", takes=_READ, headers=_CONDITIONS),
    Served(name="put_object", method="PUT", target="object", headers={**_OBJECT, **_HASH, **_CONDITIONS}),
    Served(
        name="copy_object",
        method="PUT",
        target="object",
        mark_header="x-goog-copy-source",
        headers={**_OBJECT, **_COPY, **_CONDITIONS},
    ),
    Served(name="delete_object", method="DELETE", target="object", takes=taking("generation"), headers=_CONDITIONS),
    Served(name="create_upload", method="POST", target="object", marks={"uploads": None}, headers=_OBJECT),
    Served(
        name="upload_part",
        method="PUT",
        target="object",
        marks={"uploadId": None},
        takes=taking("partNumber"),
        headers=_HASH,
    ),
    Served(
        name="list_parts",
        method="GET",
        target="object",
        marks={"uploadId": None},
        takes=taking("max-parts", "part-number-marker"),
    ),
    Served(
        name="complete_upload",
        method="POST",
        target="object",
        marks={"uploadId": None},
        headers={**_HASH, **_CONDITIONS},
    ),
    Served(name="abort_upload", method="DELETE", target="object", marks={"uploadId": None}),
)


def _is_everywhere(parameter: str) -> bool:
    return parameter in SIGNATURE_PARAMETERS or parameter.startswith("x-goog-custom-audit-")


ROUTES = Routes(
    _SERVED,
    is_everywhere=_is_everywhere,
    headers=_EVERYWHERE,
    metadata_prefix="x-goog-meta-",
    checked=("x-goog-", "x-amz-"),
    checked_in_writes=("if-", "content-range"),
)
"""What is served; the rest is refused with NotImplemented. Of S3's own headers only those of signatures are let
through: a copy or a chunked body that they ask for would else be written as an object without bytes, or with too
many."""

OPERATIONS = ROUTES.names
"""Names of all operations of the XML API that the testbed serves."""
