"""Which S3 operation a request asks for."""

from buckettestbed.operations.routes import Routes

__all__ = ["OPERATIONS", "ROUTES"]

ROUTES = Routes(
    bucket={("POST", "delete"): "delete_objects"},
    object={("GET", "attributes"): "get_object_attributes"},
    unserved=frozenset(
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
    ),
    copy_header="x-amz-copy-source",
    part_copy="upload_part_copy",
)
"""*Source* of the subresources: Amazon S3 API reference, actions. The unserved ones are refused with NotImplemented."""

OPERATIONS = ROUTES.names
"""Names of all S3 operations that the testbed serves."""
