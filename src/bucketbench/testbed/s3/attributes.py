"""What a write says about its object: content headers, user metadata, checksums."""

from collections.abc import Mapping

from bucketbench.testbed.model.objects import Attributes
from bucketbench.testbed.s3.checksums import checksum_headers
from bucketbench.testbed.s3.errors import S3Error

__all__ = ["METADATA_LIMIT_BYTES", "requested_attributes"]

METADATA_LIMIT_BYTES = 2048
"""*Source*: Amazon S3 user guide, object metadata: names and values of user metadata together at most 2 KiB."""

_KEPT = ("content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_METADATA_PREFIX = "x-amz-meta-"


def requested_attributes(headers: Mapping[str, str]) -> Attributes:
    """Returns the attributes that a PUT's or an upload's headers state; raises MetadataTooLarge."""
    kept = {name: headers[name] for name in _KEPT if name in headers}
    if "content-encoding" in kept:  # aws-chunked describes the transfer, not the object.
        encodings = [text.strip() for text in kept.pop("content-encoding").split(",")]
        if remaining := ", ".join(text for text in encodings if text and text.lower() != "aws-chunked"):
            kept["content-encoding"] = remaining
    metadata = {
        name.removeprefix(_METADATA_PREFIX): value
        for name, value in headers.items()
        if name.startswith(_METADATA_PREFIX)
    }
    size_bytes = sum(len(name) + len(value) for name, value in metadata.items())
    if size_bytes > METADATA_LIMIT_BYTES:
        raise S3Error("MetadataTooLarge", fields={"Size": str(size_bytes), "MaxSizeAllowed": str(METADATA_LIMIT_BYTES)})
    return Attributes(headers=kept, metadata=metadata, checksums=checksum_headers(headers))
