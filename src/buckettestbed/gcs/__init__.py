"""The GCS dialects: the JSON API and the XML API over the same bucket model."""
