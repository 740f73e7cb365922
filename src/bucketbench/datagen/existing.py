"""What lies under a prefix already, listed and read once: the list that a run compares its clients' content with."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import xxhash

from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.location import DatasetLocation, store_config
from bucketbench.datagen.threads import Threads, threads_for
from bucketbench.units import format_bytes
from torchbucket.store import ObjectInfo, Store

__all__ = ["ExistingSample", "existing_samples"]

_READS_AT_ONCE: Final = 8
# A longer object is read in pieces, so that so many of them fit into memory.
_PIECE_BYTES: Final = 32 << 20
_GZIP: Final = 16 + zlib.MAX_WBITS  # *Source*: zlib, inflateInit2: 16 more expects gzip's header and trailer


@dataclass(frozen=True, kw_only=True, slots=True)
class ExistingSample:
    """One object.

    Args:
        key: relative to the prefix.
        size_bytes: as the listing says.
        xxh3_128: of its content, in hexadecimal; None where that was not read.
        decoded_size_bytes: of what its content is once gunzipped, which is what Cloud Storage sends of an object with
            ``Content-Encoding: gzip`` to clients that do not ask for it as it is stored, and what others make of it
            themselves; None of what is not gzipped, or on S3, which sends what it has.
        decoded_xxh3_128: likewise.
    """

    key: str
    size_bytes: int
    xxh3_128: str | None
    decoded_size_bytes: int | None = None
    decoded_xxh3_128: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The sample as plain JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None or name == "xxh3_128"}


def existing_samples(
    uri: str, *, most: int | None, say: Callable[[str], object], **options: Any
) -> list[ExistingSample]:
    """List the objects under an address, and read the first of them, verified, for their checksums.

    Nothing is written. Empty objects whose key ends with a slash, as consoles make them for folders, are no samples.

    Args:
        uri: the address, such as ``s3://bucket/images/``.
        most: how many are read, in the order of their keys; None for all.
        say: is told what there is, before it is read.
        **options: fields of ``StoreConfig`` by which it is reached.

    Raises:
        DatagenError: nothing is there, it cannot be listed or read, or it changed while it was read.
    """
    location = DatasetLocation.parse(uri, store_config(**options))
    with location.opened() as store:
        found = [info for info in store.list(location.prefix) if info.size_bytes or not info.key.endswith("/")]
        if not found:
            raise DatagenError(
                f"there is no object under {location.uri}: correct the bucket or the prefix, which is the beginning of "
                "keys up to a slash"
            )
        found.sort(key=lambda info: info.key)
        read = found[:most]
        say(
            f"{len(found):,} objects under {location.uri}; reading {len(read):,} of them once "
            f"({format_bytes(sum(info.size_bytes for info in read))}), for the checksums that content is compared with"
        )
        with threads_for(_READS_AT_ONCE, "bucketbench-existing") as threads:
            samples = list(threads.map(lambda info: _sample(store, info, location, threads), read))
    unread = (_Contents(info, location).sample(None) for info in found[most:] if most is not None)
    return [*samples, *unread]


def _sample(store: Store, info: ObjectInfo, location: DatasetLocation, threads: Threads) -> ExistingSample:
    digest, contents = xxhash.xxh3_128(), _Contents(info, location)
    # One piece is the whole object where that is no longer, so that the store verifies it.
    for start in range(0, info.size_bytes, _PIECE_BYTES) or [0]:
        threads.check_wanted()
        whole = info.size_bytes <= _PIECE_BYTES
        stop = None if whole else min(start + _PIECE_BYTES, info.size_bytes)
        piece = store.read(info.key, start=start, stop=stop, version=info.version).data
        digest.update(piece)
        contents.take(piece)
    return contents.sample(digest.hexdigest())


class _Contents:
    """What an object's content is once gunzipped, where it may be delivered so, and the sample that comes of it."""

    def __init__(self, info: ObjectInfo, location: DatasetLocation) -> None:
        self._info = info
        self._key = info.key.removeprefix(location.prefix)
        self._gunzip = zlib.decompressobj(wbits=_GZIP) if location.root.scheme == "gs" else None
        self._digest = xxhash.xxh3_128()
        self._size_bytes = 0

    def take(self, piece: bytes | bytearray | memoryview) -> None:
        """The next piece of the content."""
        if self._gunzip is None:
            return
        try:
            while piece:
                decoded = self._gunzip.decompress(piece, _PIECE_BYTES)
                self._digest.update(decoded)
                self._size_bytes += len(decoded)
                piece = self._gunzip.unconsumed_tail
        except zlib.error:
            self._gunzip = None

    def sample(self, digest: str | None) -> ExistingSample:
        """The sample, whose stored content has a digest."""
        plain = ExistingSample(key=self._key, size_bytes=self._info.size_bytes, xxh3_128=digest)
        if self._gunzip is None or not self._gunzip.eof:
            return plain
        return replace(plain, decoded_size_bytes=self._size_bytes, decoded_xxh3_128=self._digest.hexdigest())
