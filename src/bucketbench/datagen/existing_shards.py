"""What tar shards that lie under a prefix already hold: read once, by Python's own ``tarfile``."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from typing import Any, Final, cast

import xxhash

from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.location import DatasetLocation, store_config
from bucketbench.datagen.manifest import ManifestEntry, ManifestMember
from bucketbench.datagen.threads import Threads, threads_for
from bucketbench.units import format_bytes
from torchbucket.store import ObjectInfo, Store

__all__ = ["existing_shards"]

_SHARDS_AT_ONCE: Final = 4
_PIECE_BYTES: Final = 32 << 20


def existing_shards(uri: str, *, say: Callable[[str], object], **options: Any) -> list[ManifestEntry]:
    """List the tar shards under an address, and read each once for the names, sizes and checksums of its members.

    Nothing is written. What is called other than ``….tar`` is left alone.

    Args:
        uri: the address, such as ``s3://bucket/shards/``.
        say: is told what there is, before it is read.
        **options: fields of ``StoreConfig`` by which it is reached.

    Raises:
        DatagenError: no shard is there, it cannot be listed or read, it is no tar archive, or it changed meanwhile.
    """
    location = DatasetLocation.parse(uri, store_config(**options))
    with location.opened() as store:
        shards = sorted(
            (info for info in store.list(location.prefix) if info.key.endswith(".tar")), key=lambda info: info.key
        )
        if not shards:
            raise DatagenError(f"there is no object under {location.uri} whose name ends with .tar: correct the prefix")
        size = format_bytes(sum(info.size_bytes for info in shards))
        say(f"{len(shards):,} shards under {location.uri}; reading them once ({size}), for what their members are")
        with threads_for(_SHARDS_AT_ONCE, "bucketbench-shards") as threads:
            return list(threads.map(lambda info: _entry(store, info, location, threads), shards))


def _entry(store: Store, info: ObjectInfo, location: DatasetLocation, threads: Threads) -> ManifestEntry:
    stream = _Stream(store, info, threads)
    members: list[ManifestMember] = []
    try:
        with tarfile.open(fileobj=cast("Any", stream), mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                digest = xxhash.xxh3_128()
                while piece := content.read(1 << 20):
                    digest.update(piece)
                members.append(ManifestMember(name=member.name, size_bytes=member.size, xxh3_128=digest.hexdigest()))
    except tarfile.TarError as error:
        raise DatagenError(f"{location.address_of(info.key)} is no tar archive, or a damaged one: {error}") from error
    while stream.read(_PIECE_BYTES):
        pass
    return ManifestEntry(
        key=info.key.removeprefix(location.prefix),
        size_bytes=info.size_bytes,
        xxh3_128=stream.hexdigest(),
        members=tuple(members),
    )


class _Stream:
    """An object's content from one end to the other, a piece of it in memory; hashed as it goes."""

    def __init__(self, store: Store, info: ObjectInfo, threads: Threads) -> None:
        self._store = store
        self._threads = threads
        self._info = info
        self._position = 0
        self._piece = memoryview(b"")
        self._digest = xxhash.xxh3_128()

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        if not self._piece and self._position < self._info.size_bytes:
            self._threads.check_wanted()
            stop = min(self._position + _PIECE_BYTES, self._info.size_bytes)
            read = self._store.read(self._info.key, start=self._position, stop=stop, version=self._info.version)
            self._piece, self._position = memoryview(read.data), stop
            self._digest.update(self._piece)
        taken, self._piece = bytes(self._piece[:size]), self._piece[size:]
        return taken

    def hexdigest(self) -> str:
        """XXH3-128 of what was read."""
        return self._digest.hexdigest()
