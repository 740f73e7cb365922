"""Which S3 operation a request asks for. *Source*: Amazon S3 API reference, actions, with their request syntax."""

from buckettestbed.operations.routes import Routes, Served, taking

__all__ = ["OPERATIONS", "ROUTES", "SIGNATURE_PARAMETERS"]

SIGNATURE_PARAMETERS = frozenset(
    [
        "awsaccesskeyid",
        "expires",
        "signature",
        "x-amz-algorithm",
        "x-amz-checksum-mode",
        "x-amz-content-sha256",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
        "x-amz-user-agent",
        "x-id",
    ]
)
"""The query of a presigned address, version 4 or 2, and what SDKs put there that changes nothing."""

_EVERYWHERE = taking(
    "x-amz-api-version",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-user-agent",
)
_BODY = taking(
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-decoded-content-length",
    "x-amz-trailer",
)
"""What says how a body is sent and checked."""

_OBJECT = {
    **taking("x-amz-server-side-encryption", "x-amz-storage-class"),
    "x-amz-acl": {"private", "bucket-owner-full-control", "bucket-owner-read"},
    "x-amz-object-lock-legal-hold": {"OFF"},
    "x-amz-server-side-encryption-bucket-key-enabled": {"false"},
}
"""What a new object may be; of access control lists those that grant nobody else anything."""

_COPY = taking(
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since",
    "x-amz-source-expected-bucket-owner",
)
_WRITE_CONDITIONS = taking("if-match", "if-none-match")
_PAGES = taking("prefix", "delimiter", "max-keys", "encoding-type")
_VERSION = {"versionId": {"null"}}
"""Where versions were never enabled, null is the one there is."""

_READ = {
    **_VERSION,
    **taking(
        "partNumber",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
    ),
}
_READ_HEADERS = taking("x-amz-checksum-mode")
_NO_ENTRY_HAS_ONE = taking("x-amz-optional-object-attributes")
_NOTHING_IS_LOCKED = taking("x-amz-bypass-governance-retention")

_SERVED = (
    Served(
        name="list_buckets",
        method="GET",
        target="service",
        takes={**taking("prefix", "max-buckets", "continuation-token", "bucket-region"), "x-id": {"ListBuckets"}},
    ),
    Served(
        name="create_bucket",
        method="PUT",
        target="bucket",
        headers={
            **_BODY,
            "x-amz-acl": {"private"},
            "x-amz-bucket-object-lock-enabled": {"false"},
            "x-amz-object-ownership": {"BucketOwnerEnforced"},
        },
    ),
    Served(name="delete_bucket", method="DELETE", target="bucket"),
    Served(name="head_bucket", method="HEAD", target="bucket"),
    Served(name="get_bucket_location", method="GET", target="bucket", marks={"location": None}),
    Served(name="get_bucket_versioning", method="GET", target="bucket", marks={"versioning": None}),
    Served(
        name="list_objects_v1",
        method="GET",
        target="bucket",
        takes={**_PAGES, **taking("marker")},
        headers=_NO_ENTRY_HAS_ONE,
    ),
    Served(
        name="list_objects_v2",
        method="GET",
        target="bucket",
        marks={"list-type": "2"},
        takes={**_PAGES, **taking("continuation-token", "start-after", "fetch-owner")},
        headers=_NO_ENTRY_HAS_ONE,
    ),
    Served(
        name="list_uploads",
        method="GET",
        target="bucket",
        marks={"uploads": None},
        takes=taking("prefix", "delimiter", "max-uploads", "key-marker", "upload-id-marker", "encoding-type"),
    ),
    Served(
        name="delete_objects",
        method="POST",
        target="bucket",
        marks={"delete": None},
        headers={**_BODY, **_NOTHING_IS_LOCKED},
    ),
    Served(name="get_object", method="GET", target="object", takes=_READ, headers=_READ_HEADERS),
    Served(
        name="get_object_range",
        method="GET",
        target="object",
        mark_header="range",
        takes=_READ,
        headers=_READ_HEADERS,
    ),
    Served(name="head_object", method="HEAD", target="object", takes=_READ, headers=_READ_HEADERS),
    Served(
        name="get_object_attributes",
        method="GET",
        target="object",
        marks={"attributes": None},
        takes=_VERSION,
        headers=taking("x-amz-object-attributes", "x-amz-max-parts", "x-amz-part-number-marker"),
    ),
    Served(name="put_object", method="PUT", target="object", headers={**_BODY, **_OBJECT, **_WRITE_CONDITIONS}),
    Served(
        name="copy_object",
        method="PUT",
        target="object",
        mark_header="x-amz-copy-source",
        headers={
            **_OBJECT,
            **_COPY,
            **_WRITE_CONDITIONS,
            **taking("x-amz-checksum-algorithm", "x-amz-metadata-directive"),
            "x-amz-tagging-directive": {"COPY"},
        },
    ),
    Served(
        name="delete_object",
        method="DELETE",
        target="object",
        takes=_VERSION,
        headers={**taking("if-match"), **_NOTHING_IS_LOCKED},
    ),
    Served(
        name="create_upload",
        method="POST",
        target="object",
        marks={"uploads": None},
        headers={**_OBJECT, **taking("x-amz-checksum-algorithm", "x-amz-checksum-type")},
    ),
    Served(
        name="upload_part",
        method="PUT",
        target="object",
        marks={"uploadId": None},
        takes=taking("partNumber"),
        headers=_BODY,
    ),
    Served(
        name="upload_part_copy",
        method="PUT",
        target="object",
        marks={"uploadId": None},
        mark_header="x-amz-copy-source",
        takes=taking("partNumber"),
        headers={**_COPY, **taking("x-amz-copy-source-range")},
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
        headers={**_BODY, **_WRITE_CONDITIONS, **taking("x-amz-checksum-type", "x-amz-mp-object-size")},
    ),
    Served(name="abort_upload", method="DELETE", target="object", marks={"uploadId": None}),
)


def _is_everywhere(parameter: str) -> bool:
    """Returns whether any request may have a parameter: a signature's, or one of the sender's own.

    *Source*: Amazon S3 user guide, server access log format: S3 ignores parameters that begin with `x-`, for notes in
    the log. Those of its own it does not ignore: an SDK puts headers there when it presigns.
    """
    return parameter in SIGNATURE_PARAMETERS or (parameter.startswith("x-") and not parameter.startswith("x-amz-"))


ROUTES = Routes(
    _SERVED,
    is_everywhere=_is_everywhere,
    headers=_EVERYWHERE,
    metadata_prefix="x-amz-meta-",
    checked=("x-amz-",),
    checked_in_writes=("if-", "content-range"),
)
"""What is served; the rest is refused with NotImplemented."""

OPERATIONS = ROUTES.names
"""Names of all S3 operations that the testbed serves."""
