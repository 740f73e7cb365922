"""The S3 REST dialect: requests in, calls of the bucket model, S3's own answers and errors out."""
