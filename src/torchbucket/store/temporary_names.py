"""Names of the objects that exist only while another one is made."""

from __future__ import annotations

import re
import secrets
from typing import Final

__all__ = ["is_temporary", "temporary_key"]

# The most bytes of a key. Source: S3 user guide, "Creating object key names"; Cloud Storage, "About objects".
_MOST_KEY_BYTES: Final = 1024

_MARK: Final = ".torchbucket-temporary-"
_NAME: Final = re.compile(re.escape(_MARK) + r"[0-9a-f]{16}\Z")


def temporary_key(target_key: str) -> str:
    """A key of its own for an object that is to become ``target_key`` or a piece of it.

    It begins with the target's key, so that both share permissions, lifecycle rules and a listing's prefix; of a key
    above 985 bytes the end is left out, since the whole must fit into 1,024.
    """
    mark = f"{_MARK}{secrets.token_hex(8)}"
    return target_key.encode()[: _MOST_KEY_BYTES - len(mark)].decode(errors="ignore") + mark


def is_temporary(key: str) -> bool:
    """Whether a key is one of ``temporary_key``'s, such as a process leaves behind that was killed."""
    return _NAME.search(key) is not None
