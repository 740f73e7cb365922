"""S3, by its REST API."""
