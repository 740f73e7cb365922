"""The XML API of GCS."""
