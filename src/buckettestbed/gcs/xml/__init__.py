"""The XML API of GCS: requests in, calls of the bucket model, the API's own answers and errors out."""
