"""Which operations the rules of faults speak of, by what they do."""

from buckettestbed.operations import gcs_json, gcs_xml, s3

__all__ = ["LATE_ERRORS", "LISTINGS", "LISTINGS_BY_TOKEN", "OPERATIONS", "READS", "WRITE_METHODS"]

OPERATIONS = s3.OPERATIONS | gcs_xml.OPERATIONS | gcs_json.OPERATIONS | {"token"}
"""Every name that a dialect gives an operation, and that of the endpoint for access tokens."""

LISTINGS = frozenset({"list_objects", "list_objects_v1", "list_objects_v2"})
"""Listings of objects, which come page by page."""

LISTINGS_BY_TOKEN = LISTINGS - {"list_objects_v1"}
"""Those whose next page a token asks for, where version 1 asks by the last name of the page before."""

LATE_ERRORS = frozenset({"complete_upload", "copy_object", "upload_part_copy"})
"""Operations of S3 that answer 200 before they are done. *Source*: Amazon S3 API reference, CompleteMultipartUpload,
CopyObject and UploadPartCopy: the body of a 200 may hold an error."""

READS = frozenset({"get_object", "get_object_range"})
"""Reads of an object's bytes."""

WRITE_METHODS = frozenset({"PUT", "POST", "PATCH", "DELETE"})
"""Methods that change something, or may carry a body."""
