"""What both APIs of GCS allow of an object's metadata."""

__all__ = ["METADATA_LIMIT_BYTES", "STORAGE_CLASSES"]

METADATA_LIMIT_BYTES = 8 << 10
"""*Source*: Cloud Storage, quotas and limits: custom metadata of an object, keys and values, at most 8 KiB."""

STORAGE_CLASSES = frozenset(
    {"STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY"}
)
"""*Source*: Cloud Storage documentation, storage classes, with the legacy ones."""
