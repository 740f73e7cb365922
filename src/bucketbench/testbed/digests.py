"""Digests of bodies, several algorithms in one pass."""

import hashlib
import zlib
from collections.abc import Iterable, Sequence

__all__ = ["digests_of"]


def digests_of(chunks: Iterable[bytes | memoryview], algorithms: Sequence[str]) -> dict[str, bytes]:
    """Returns the digests of the chunks joined: `hashlib` names, and `crc32` (big-endian)."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms if name != "crc32"}
    crc = 0
    for chunk in chunks:
        for running in hashes.values():
            running.update(chunk)
        if "crc32" in algorithms:
            crc = zlib.crc32(chunk, crc)
    digests = {name: running.digest() for name, running in hashes.items()}
    if "crc32" in algorithms:
        digests["crc32"] = crc.to_bytes(4, "big")
    return digests
