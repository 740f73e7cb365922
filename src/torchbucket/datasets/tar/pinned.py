"""Ranges of one shard, and the check of those that arrive."""

from __future__ import annotations

from concurrent.futures import Future

from torchbucket.datasets.source import ObjectSource, read_result
from torchbucket.datasets.tar.sample import Place
from torchbucket.errors import ArchiveError
from torchbucket.files.content import check_complete
from torchbucket.store.base import check_same
from torchbucket.store.protocol import ObjectData, Read

__all__ = ["PinnedShard"]


class PinnedShard:
    """Reads ranges of one shard, all of one version: the place's, else the data set's, else the one that arrives first.

    Args:
        source: the shards.
        place: in which of them, and of which version.
    """

    def __init__(self, source: ObjectSource, place: Place) -> None:
        self._store = source.store
        self._key = source.listing.keys[place.shard]
        self.uri = source.uri(place.shard)
        self.size_bytes = source.listing.size_bytes(place.shard)
        self.version = place.version if place.version is not None else source.pinned_version(place.shard)

    def submit(self, start: int, stop: int) -> Future[ObjectData]:
        """Begin to read a range."""
        return self._store.submit_read(
            Read(key=self._key, start=start, stop=stop, size_bytes=self.size_bytes, version=self.version)
        )

    def received(self, future: Future[ObjectData], start: int, stop: int) -> bytes | bytearray | memoryview:
        """Wait for a range, which must be complete and of the same version as those before.

        Raises:
            ObjectChangedError: the shard was overwritten since the listing, or meanwhile.
            StoreError: the range could not be read.
        """
        data = read_result(future, self.uri)
        info = data.info
        check_same(self.uri, info, size_bytes=self.size_bytes, version=self.version)
        self.version, self.size_bytes = info.version, info.size_bytes
        check_complete(data, self.uri, start=start, stop=stop)
        return data.data

    def ends_inside(self, stop: int | None) -> ArchiveError:
        """What is wrong when a sample needs bytes beyond its piece's end."""
        return ArchiveError(
            f"{self.uri}: the loaded state says that a sample ends at byte {stop}, and none does: the state is "
            "damaged, or of another shard",
            uri=self.uri,
            offset=stop or 0,
        )
