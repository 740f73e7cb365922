"""What GCS allows as an object's and a bucket's name. *Source*: Cloud Storage documentation, object naming requirements
and bucket naming requirements."""

from buckettestbed.model.errors import InvalidBucketNameError
from buckettestbed.rest.addressing import KEY_LIMIT_BYTES

__all__ = ["InvalidObjectNameError", "check_bucket_name", "check_name"]

_RESERVED = ".well-known/acme-challenge/"

_LOOKALIKES = str.maketrans("01", "ol")
"""Digits that are read as letters: `g00gle` is close to `google`."""


class InvalidObjectNameError(ValueError):
    """An object cannot be written under this name; the message says why."""


def check_name(name: str) -> None:
    """Raises InvalidObjectNameError for a name that GCS does not take: empty, above 1,024 bytes of UTF-8, with a
    carriage return or line feed, `.` or `..`, or below `.well-known/acme-challenge/`."""
    size_bytes = len(name.encode("utf-8", errors="surrogatepass"))
    if not 1 <= size_bytes <= KEY_LIMIT_BYTES:
        raise InvalidObjectNameError(f"The name has {size_bytes} bytes; 1 to {KEY_LIMIT_BYTES} are allowed.")
    if "\r" in name or "\n" in name:
        raise InvalidObjectNameError("The name holds a carriage return or a line feed.")
    if name in (".", "..") or name.startswith(_RESERVED):
        raise InvalidObjectNameError(f"The name {name!r} is reserved.")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise InvalidObjectNameError("The name is not valid Unicode.")


def check_bucket_name(name: str) -> None:
    """Raises InvalidBucketNameError for a new bucket's name that Google keeps for itself: one that begins with `goog`,
    or holds `google`, also as it looks alike. What no provider takes the model refuses."""
    if name.startswith("goog") or "google" in name.translate(_LOOKALIKES):
        raise InvalidBucketNameError(name)
