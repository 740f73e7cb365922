"""What a data set over tar shards hands to ``transform``: the members of one sample, by extension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

from torchbucket.files.content import WholeContent
from torchbucket.files.reader import ObjectReader
from torchbucket.public import public, public_in

__all__ = ["Place", "TarSample", "sample_dict"]


class Place(NamedTuple):
    """The samples at ``[start, stop)`` of a shard, with their headers and padding."""

    shard: int  # the shard's position in the data set's listing
    start: int = 0
    stop: int | None = None  # None means the archive's end
    version: str | None = None  # the shard's, where something was read of it before


@public
class TarSample(Mapping[str, bytes]):
    """The members of a shard that share a key, as a mapping from extension to content.

    ``sample["jpg"]`` copies the member out of the shard's memory; ``open`` and ``view`` do not. What they return keeps
    the range alive that the member arrived in, 8 MiB, for as long as it is held itself.

    Args:
        key: the members' common name, up to the first dot of its last path component.
        shard_uri: the archive's address.
        fields: content by extension, in the archive's order.
        place: where the sample is in the archive.
        ends_shard: the archive is known to have no further sample.
    """

    __slots__ = ("_fields", "ends_shard", "key", "place", "shard_uri")

    def __init__(
        self,
        key: str,
        shard_uri: str,
        fields: dict[str, bytes | bytearray | memoryview],
        place: Place,
        *,
        ends_shard: bool = False,
    ) -> None:
        self.key = key
        self.shard_uri = shard_uri
        self.place = place
        self.ends_shard = ends_shard
        self._fields = fields

    @property
    def uri(self) -> str:
        """The shard's address, ``#`` and the key: for messages, it opens nothing."""
        return f"{self.shard_uri}#{self.key}"

    def __getitem__(self, extension: str) -> bytes:
        """The content of one member."""
        content = self._field(extension)
        return content if isinstance(content, bytes) else bytes(content)

    def view(self, extension: str) -> memoryview:
        """The content of one member as read-only memory, without a copy."""
        return memoryview(self._field(extension)).toreadonly()

    def open(self, extension: str) -> ObjectReader:
        """One member as a binary file, without a copy; its ``key`` is the member's name."""
        name = f"{self.key}.{extension}"
        return ObjectReader(WholeContent(self._field(extension)), key=name, uri=f"{self.shard_uri}#{name}")

    @property
    def size_bytes(self) -> int:
        """The sum of the members' sizes."""
        return sum(map(len, self._fields.values()))

    def detached(self) -> Self:
        """The same sample with its content copied, so that it keeps nothing else of the shard in memory."""
        fields: dict[str, bytes | bytearray | memoryview] = {name: bytes(data) for name, data in self._fields.items()}
        return type(self)(self.key, self.shard_uri, fields, self.place, ends_shard=self.ends_shard)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, extension: object) -> bool:
        return extension in self._fields

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.key, self.shard_uri, dict(self), self.place)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(data)} bytes" for name, data in self._fields.items())
        return f"<TarSample {self.uri} {{{sizes}}}>"

    def _field(self, extension: str) -> bytes | bytearray | memoryview:
        try:
            return self._fields[extension]
        except KeyError:
            raise KeyError(
                f"{self.uri} has no member with the extension {extension!r}; it has {', '.join(self) or 'none'}"
            ) from None


@public_in("torchbucket.datasets.tar")
def sample_dict(sample: TarSample) -> dict[str, str | bytes]:
    """The default transform: the members by extension, and ``__key__`` and ``__url__`` as in WebDataset's samples."""
    return {"__key__": sample.key, "__url__": sample.shard_uri, **sample}
