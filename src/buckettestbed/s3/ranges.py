"""Byte ranges, with S3's error for one that holds no byte."""

from buckettestbed.s3.errors import S3Error
from buckettestbed.serving import ranges

__all__ = ["byte_range"]


def byte_range(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Returns the `start, stop` that a Range header asks for, None for the whole object; raises InvalidRange."""
    try:
        return ranges.byte_range(header, size_bytes)
    except ranges.UnsatisfiableRangeError:
        raise S3Error(
            "InvalidRange",
            fields={"RangeRequested": header, "ActualObjectSize": str(size_bytes)},
            headers=[(b"content-range", b"bytes */%d" % size_bytes)],
        ) from None
