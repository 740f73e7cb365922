"""Which operation of the XML API a request asks for."""

from buckettestbed.operations.routes import UNKNOWN, Routes

__all__ = ["OPERATIONS", "ROUTES"]

ROUTES = Routes(
    bucket={("GET", "storageClass"): "get_bucket_storage_class"},
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
