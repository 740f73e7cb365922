"""Which operation of the XML API a request asks for."""

from buckettestbed.operations.routes import UNKNOWN, Routes

__all__ = ["OPERATIONS", "ROUTES"]

ROUTES = Routes(
    service={"GET": "list_buckets"},
    bucket={"PUT": "create_bucket", "DELETE": "delete_bucket", "HEAD": "head_bucket"},
    object={"GET": "get_object", "HEAD": "head_object", "PUT": "put_object", "DELETE": "delete_object"},
    bucket_subresources={
        ("GET", "location"): "get_bucket_location",
        ("GET", "storageClass"): "get_bucket_storage_class",
        ("GET", "versioning"): "get_bucket_versioning",
        ("GET", "uploads"): "list_uploads",
    },
    object_subresources={
        ("POST", "uploads"): "create_upload",
        ("POST", "uploadId"): "complete_upload",
        ("GET", "uploadId"): "list_parts",
        ("DELETE", "uploadId"): "abort_upload",
    },
    unserved=frozenset(
        [
            "acl",
            "billing",
            "compose",
            "cors",
            "customPlacementConfig",
            "defaultObjectAcl",
            "encryption",
            "encryptionConfig",
            "lifecycle",
            "logging",
            "object-lock",
            "retention",
            "tagging",
            "upload_id",
            "versions",
            "website",
            "websiteConfig",
        ]
    ),
    copy_header="x-goog-copy-source",
    part_copy=UNKNOWN,
)
"""*Source* of the subresources: Cloud Storage XML API reference, query string parameters. The unserved ones are refused
with NotImplemented; a part cannot be made by copying."""

OPERATIONS = ROUTES.names
"""Names of all operations of the XML API that the testbed serves."""
