"""Digests of bodies, several algorithms in one pass, and the CRCs of bodies that are joined."""

import hashlib
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from awscrt import checksums

__all__ = ["CRC_BYTES", "RunningDigests", "combine_crcs", "digests_of"]

CRC_BYTES: Mapping[str, int] = MappingProxyType({"crc32": 4, "crc32c": 4, "crc64nvme": 8})
"""Length in bytes of each CRC; all are shown big-endian."""

_RUNNING: Mapping[str, Callable[[bytes | memoryview, int], int]] = {
    "crc32": zlib.crc32,
    "crc32c": checksums.crc32c,
    "crc64nvme": checksums.crc64nvme,
}
_COMBINE: Mapping[str, Callable[[int, int, int], int]] = {
    "crc32": checksums.combine_crc32,
    "crc32c": checksums.combine_crc32c,
    "crc64nvme": checksums.combine_crc64nvme,
}


class RunningDigests:
    """Digests of chunks that come one after another: `hashlib` names, and those in `CRC_BYTES`."""

    __slots__ = ("_crcs", "_hashes")

    def __init__(self, algorithms: Collection[str]) -> None:
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms if name not in CRC_BYTES}
        self._crcs = {name: 0 for name in algorithms if name in CRC_BYTES}

    def update(self, chunks: Iterable[bytes | memoryview]) -> None:
        """Takes the next chunks."""
        for chunk in chunks:
            for running in self._hashes.values():
                running.update(chunk)
            for name, crc in self._crcs.items():
                self._crcs[name] = _RUNNING[name](chunk, crc)

    def digests(self) -> dict[str, bytes]:
        """Returns the digests of all chunks joined."""
        digests = {name: running.digest() for name, running in self._hashes.items()}
        return digests | {name: crc.to_bytes(CRC_BYTES[name], "big") for name, crc in self._crcs.items()}


def digests_of(chunks: Iterable[bytes | memoryview], algorithms: Collection[str]) -> dict[str, bytes]:
    """Returns the digests of the chunks joined: `hashlib` names, and those in `CRC_BYTES`."""
    running = RunningDigests(algorithms)
    running.update(chunks)
    return running.digests()


def combine_crcs(algorithm: str, parts: Iterable[tuple[bytes, int]]) -> bytes:
    """Returns the CRC of the parts joined.

    Args:
        algorithm: one of `CRC_BYTES`.
        parts: the CRC and the length in bytes of each part, in order.
    """
    combined = 0
    for crc, size_bytes in parts:
        combined = _COMBINE[algorithm](combined, int.from_bytes(crc, "big"), size_bytes)
    return combined.to_bytes(CRC_BYTES[algorithm], "big")
