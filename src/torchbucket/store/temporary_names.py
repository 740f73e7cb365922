"""Names of what exists only while something else is made: of temporary objects, and of files that are being written."""

from __future__ import annotations

import re
import secrets
import time
from calendar import timegm
from collections.abc import Collection
from typing import Final

from torchbucket.public import public_in

__all__ = ["any_temporary", "is_temporary", "made_at_s", "target_of", "temporary_key"]

# Source: S3 user guide, "Creating object key names"; Cloud Storage, "About objects".
_MOST_KEY_BYTES: Final = 1024

_MARK: Final = ".torchbucket-temporary-"
_TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(re.escape(_MARK) + r"(?P<time>[0-9]{8}T[0-9]{6}Z)-[0-9a-f]{16}\Z")


def temporary_key(target_key: str, *, most_bytes: int = _MOST_KEY_BYTES) -> str:
    """A key of its own for an object that is to become ``target_key`` or a piece of it, with the time that it is now.

    It begins with the target's key, so that both share permissions, lifecycle rules and a listing's prefix; where that
    is too long for the whole to fit into ``most_bytes``, its end is left out.
    """
    mark = f"{_MARK}{time.strftime(_TIME, time.gmtime(time.time()))}-{secrets.token_hex(8)}"
    return target_key.encode()[: most_bytes - len(mark)].decode(errors="ignore") + mark


@public_in("torchbucket.store")
def is_temporary(key: str) -> bool:
    """Whether a key is one of ``temporary_key``'s, such as a process leaves behind that was killed."""
    return made_at_s(key) is not None


def any_temporary(keys: Collection[str]) -> bool:
    """Whether one of many keys is temporary, which is told of a thousand at once for what telling it of ten costs."""
    return _MARK in "\n".join(keys) and any(map(is_temporary, keys))


def made_at_s(key: str) -> float | None:
    """When one of ``temporary_key``'s keys was made, in seconds since 1970; None for any other key."""
    found = _NAME.search(key) if _MARK in key else None
    if found is None:
        return None
    try:
        return float(timegm(time.strptime(found["time"], _TIME)))
    except ValueError:
        return None


def target_of(key: str) -> str:
    """What ``temporary_key`` made a key of, as far as it kept it; any other key itself."""
    return _NAME.sub("", key) if is_temporary(key) else key
