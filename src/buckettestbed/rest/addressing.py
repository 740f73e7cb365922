"""Which bucket and key a request means: path-style and virtual-host addressing, names byte-exact."""

from collections.abc import Collection
from urllib.parse import unquote_to_bytes

from buckettestbed.rest.errors import RestError

__all__ = ["KEY_LIMIT_BYTES", "address", "bucket_in_host", "check_key"]

KEY_LIMIT_BYTES = 1024
"""*Source*: Amazon S3 user guide, object key names, and Cloud Storage, object names: at most 1,024 bytes of UTF-8."""


def bucket_in_host(host: str, base_hosts: Collection[str]) -> str | None:
    """Returns the bucket that stands before a base host, as in `bucket.localhost:9000`, or None for path-style."""
    name = host.lower()
    if not name.endswith("]"):  # An IPv6 address ends so when it has no port.
        name = name.rpartition(":")[0] or name
    for base in base_hosts:
        if name.endswith("." + base):
            return name[: -len(base) - 1]
    return None


def address(raw_path: bytes, host: str, base_hosts: Collection[str]) -> tuple[str, str]:
    """Returns the bucket and the key of a request, empty where it names none; raises InvalidURI or KeyTooLongError.

    The path is only percent-decoded: empty, `.` and `..` segments and a trailing slash belong to the key.
    """
    try:
        path = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        raise RestError("InvalidURI") from None
    bucket, key = bucket_in_host(host, base_hosts), path[1:]
    if bucket is None:
        bucket, _, key = key.partition("/")
    check_key(key)
    return bucket, key


def check_key(key: str) -> None:
    """Raises KeyTooLongError for a key above the limit."""
    if len(key) > KEY_LIMIT_BYTES // 4 and len(size := key.encode()) > KEY_LIMIT_BYTES:
        raise RestError("KeyTooLongError", fields={"Size": str(len(size)), "MaxSizeAllowed": str(KEY_LIMIT_BYTES)})
