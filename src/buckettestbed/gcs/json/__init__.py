"""The JSON API of GCS."""
