"""What S3 and the XML API of GCS have in common: addresses, calls, listings, multipart uploads."""
