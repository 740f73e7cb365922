"""XML bodies of requests, with S3's error for one that is malformed."""

from xml.etree import ElementTree

from buckettestbed.s3.errors import S3Error
from buckettestbed.serving import xml

__all__ = ["parse"]


def parse(body: bytes, root: str) -> ElementTree.Element:
    """Returns the root of a document; raises MalformedXML."""
    try:
        return xml.parse(body, root)
    except xml.MalformedXmlError as error:
        raise S3Error("MalformedXML", str(error)) from None
