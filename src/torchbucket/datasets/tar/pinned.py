"""Ranges of one piece of a shard: the check of those that arrive, and the samples that are found in them."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future

from torchbucket.datasets.source import ObjectSource, read_result
from torchbucket.datasets.tar.sample import Place
from torchbucket.datasets.tar.scan import ShardScan
from torchbucket.errors import ArchiveError
from torchbucket.files.content import check_complete
from torchbucket.store.base import check_same
from torchbucket.store.protocol import ObjectData, Read

__all__ = ["PinnedPiece"]


class PinnedPiece:
    """Reads ranges of one shard, all of one version: the place's, else the data set's, else the one that arrives first.

    Args:
        source: the shards.
        piece: which samples of which of them, and of which version.
        number: the piece's number among those that are read.
        extensions: which members are wanted; None means all.
    """

    def __init__(self, source: ObjectSource, piece: Place, number: int, extensions: Collection[str] | None) -> None:
        self.piece = piece
        self.number = number
        self.size_bytes = source.listing.size_bytes(piece.shard)
        self._store = source.store
        self._key = source.listing.keys[piece.shard]
        self._uri = source.uri(piece.shard)
        self._version = piece.version if piece.version is not None else source.pinned_version(piece.shard)
        self.scan = ShardScan(self._uri, piece, size_bytes=self.size_bytes, extensions=extensions)

    def submit(self, start: int, stop: int) -> Future[ObjectData]:
        """Begin to read a range."""
        return self._store.submit_read(
            Read(key=self._key, start=start, stop=stop, size_bytes=self.size_bytes, version=self._version)
        )

    def receive(self, future: Future[ObjectData], start: int, stop: int) -> None:
        """Wait for a range, which must be complete and of the same version as those before, for the scan.

        Raises:
            ObjectChangedError: the shard was overwritten since the listing, or meanwhile.
            StoreError: the range could not be read.
        """
        data = read_result(future, self._uri)
        check_same(self._uri, data.info, size_bytes=self.size_bytes, version=self._version)
        self._version, self.size_bytes = data.info.version, data.info.size_bytes
        check_complete(data, self._uri, start=start, stop=stop)
        self.scan.add(data)

    def ends_inside(self) -> ArchiveError:
        """What is wrong when a sample needs bytes beyond the piece's end."""
        stop = self.size_bytes if self.piece.stop is None else self.piece.stop
        return ArchiveError(
            f"{self._uri}: the loaded state says that a sample ends at byte {stop}, and none does: the state is "
            "damaged, or of another shard",
            uri=self._uri,
            offset=stop or 0,
        )
