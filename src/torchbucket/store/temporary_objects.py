"""Objects that exist only while another one is made: how they are named, told from others, and removed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from concurrent.futures import wait
from typing import Final

from torchbucket.store.dialect import Dialect
from torchbucket.store.transport import Transport

__all__ = ["is_temporary", "remove_temporaries", "temporary_key"]

# The most bytes of a key. Source: S3 user guide, "Creating object key names"; Cloud Storage, "About objects".
_MOST_KEY_BYTES: Final = 1024

_MARK: Final = ".torchbucket-temporary-"
_NAME: Final = re.compile(re.escape(_MARK) + r"[0-9a-f]{16}\Z")

# How long a removal waits; a request that takes longer goes on by itself.
_REMOVAL_TIMEOUT_S: Final = 60.0


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


def remove_temporaries(transport: Transport, dialect: Dialect, keys: Sequence[str]) -> None:
    """Remove temporary objects, as far as that is possible: what failed before matters more than a failure here."""
    if not keys:
        return
    removals = [dialect.delete_object(key, condition=None) for key in keys]
    transport.submit(removals)
    wait([removal.future for removal in removals], timeout=_REMOVAL_TIMEOUT_S)
