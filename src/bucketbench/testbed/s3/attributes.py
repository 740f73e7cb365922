"""What a write says about its object: content headers, user metadata, checksums."""

from collections.abc import Mapping
from dataclasses import replace

from bucketbench.testbed.model.objects import Attributes
from bucketbench.testbed.rest.attributes import stated_attributes
from bucketbench.testbed.s3.checksums import checksum_headers

__all__ = ["METADATA_LIMIT_BYTES", "requested_attributes"]

METADATA_LIMIT_BYTES = 2048
"""*Source*: Amazon S3 user guide, object metadata: names and values of user metadata together at most 2 KiB."""

_KEPT = ("content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires")


def requested_attributes(headers: Mapping[str, str]) -> Attributes:
    """Returns the attributes that a PUT's or an upload's headers state; raises MetadataTooLarge."""
    stated = stated_attributes(
        headers, kept=_KEPT, metadata_prefix="x-amz-meta-", metadata_limit_bytes=METADATA_LIMIT_BYTES
    )
    kept = dict(stated.headers)
    if "content-encoding" in kept:  # aws-chunked describes the transfer, not the object.
        encodings = [text.strip() for text in kept.pop("content-encoding").split(",")]
        if remaining := ", ".join(text for text in encodings if text and text.lower() != "aws-chunked"):
            kept["content-encoding"] = remaining
    return replace(stated, headers=kept, checksums=checksum_headers(headers))
