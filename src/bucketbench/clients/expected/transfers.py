"""The requests of one object that torchbucket writes or reads."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import torchbucket
from bucketbench.errors import ConfigurationError
from torchbucket.datasets.prefetch import PREFETCH_BYTES
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.whole_write import part_bytes_of

__all__ = [
    "LISTED_AT_ONCE",
    "MANIFEST_BYTES_PER_NAME",
    "NAME_BYTES",
    "Requests",
    "Transfers",
    "store_settings",
]

Requests = Counter[str]
"""How many by operation, by the names that the testbed counts them by."""

LISTED_AT_ONCE: Final = 16
"""Pages that a listing asks for at the same time, by default. *Source*: ``torchbucket.listing.list_objects``."""

NAME_BYTES: Final = 250
"""What a name takes in a page of a listing. *Source*: the testbed's pages of S3, of names of 20 to 60 bytes."""

MANIFEST_BYTES_PER_NAME: Final = {"s3": 17, "gs": 5}
"""What a name takes in a Parquet manifest, its version included. *Source*: docs/listing.md, of a million names."""

_SHARD_RANGE_BYTES: Final = 8 << 20  # as torchbucket.datasets.tar.stream asks for
_TAKEN_TO_ITS_END: Final = 2 << 20  # as torchbucket.store.http.range_read does

_LISTING: Final = {"s3": "list_objects_v2", "gs": "list_objects"}


def store_settings(options: Mapping[str, Any], *, known: Iterable[str]) -> torchbucket.StoreConfig:
    """The settings of the store that a client's options mean.

    Args:
        options: of the client's configuration.
        known: those that are the client's own.

    Raises:
        ConfigurationError: an option is neither the client's nor one of ``StoreConfig``.
    """
    names = {field.name for field in dataclasses.fields(torchbucket.StoreConfig)}
    rest = {name: value for name, value in options.items() if name not in set(known)}
    if unknown := sorted(set(rest) - names):
        raise ConfigurationError(f"client.options: torchbucket has no {', '.join(unknown)}")
    try:
        return torchbucket.StoreConfig(**rest)
    except torchbucket.ConfigError as error:
        raise ConfigurationError(f"client.options: {error}") from error


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Transfers:
    """Says which requests reads and writes take.

    Args:
        config: of the store.
        scheme: ``s3`` or ``gs``.
    """

    config: torchbucket.StoreConfig
    scheme: str

    @property
    def prefetch_bytes(self) -> int:
        """What a worker of a data set has read ahead at most, by default."""
        return PREFETCH_BYTES

    def write(self, size_bytes: int, *, on_condition: bool = False) -> Requests:
        """An object that is written from memory, or streamed with a hint of its size.

        Args:
            size_bytes: its length.
            on_condition: whether it must not be there yet.
        """
        if size_bytes <= self.config.part_size_bytes:
            return Counter(put_object=1)
        part_bytes = part_bytes_of(size_bytes, self.config.part_size_bytes, Dialect.most_parts)
        requests = Counter(create_upload=1, upload_part=-(-size_bytes // part_bytes), complete_upload=1)
        if on_condition and self.scheme == "gs":  # whose uploads in parts know none: it is made aside, and moved
            requests.update(compose_object=1, delete_object=1)
        return requests

    def read(self, size_bytes: int) -> Requests:
        """A whole object whose size is known, as those of a data set, or a file that is filled into memory."""
        if size_bytes <= self.config.part_size_bytes:
            return Counter(get_object=1)
        return Counter(get_object_range=self._parts(size_bytes)) + self.checksum()

    def read_unknown(self, size_bytes: int) -> Requests:
        """A whole object whose size nobody knows before the first part is here."""
        beyond = size_bytes - self.config.part_size_bytes
        rest = self._parts(max(0, beyond))
        if self.scheme == "gs" or not self.config.verify_checksums:
            return Counter(get_object_range=1 + rest)
        # S3 tells the checksum to those who ask for all; an answer that goes on for little more is taken to its end.
        return Counter(get_object=1) + Counter(get_object_range=rest if beyond > _TAKEN_TO_ITS_END else 0)

    def read_shard(self, size_bytes: int) -> Requests:
        """A tar shard that is read from one end to the other."""
        if size_bytes <= min(_SHARD_RANGE_BYTES, self.config.part_size_bytes):
            return Counter(get_object=1)
        full, rest = divmod(size_bytes, _SHARD_RANGE_BYTES)
        return Counter(get_object_range=full * self._parts(_SHARD_RANGE_BYTES) + self._parts(rest))

    def objects_in_flight(self, size_bytes: float) -> int:
        """How many objects of a data set a worker reads at the same time: what fits into its budget."""
        return max(1, min(self.config.concurrency, int(PREFETCH_BYTES // max(size_bytes, 1))))

    def ranges(self, lengths_bytes: Iterable[int]) -> Requests:
        """Ranges of one object, each further from the next than a gap that is read through."""
        return Counter(get_object_range=sum(map(self._parts, lengths_bytes)))

    def checksum(self) -> Requests:
        """What asks for the checksum of an object that is read whole in ranges, where their answers do not tell it."""
        return Counter(head_object=1) if self.scheme == "s3" and self.config.verify_checksums else Counter()

    def list_pages(self, names: int) -> Requests:
        """A listing by one page after another."""
        return Counter({_LISTING[self.scheme]: max(1, -(-names // self.config.list_page_size))})

    def list_ranges(self, names: int) -> Requests:
        """A listing by ranges of keys at once: the pages, and some more to split ranges.

        *Source*: 21 requests for 13 pages, a test; 1,038 for 1,000, docs/listing.md; at most ``n + n // 16 + 81``.
        """
        pages = max(1, -(-names // self.config.list_page_size))
        return Counter({_LISTING[self.scheme]: pages if pages == 1 else pages + 8 + pages // 33})

    def describe_missing(self) -> Requests:
        """A look at an object that is not there, by a process that has not listed the bucket yet."""
        return Counter(head_object=1, head_bucket=1) if self.scheme == "s3" else Counter(head_object=1)

    def _parts(self, length_bytes: int) -> int:
        return -(-length_bytes // self.config.part_size_bytes)
