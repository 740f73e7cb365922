"""Which objects a data set consists of, with their exact sizes, before a single one is made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bucketbench.datagen.members import members_beside, name_of
from bucketbench.datagen.randomness import Purpose, SampleRandom
from bucketbench.datagen.spec import MAX_SIZE_FACTOR, DatasetSpec

__all__ = ["PlannedObject", "PlannedSample", "planned_objects", "planned_size_bytes"]

# Source: POSIX.1-2017, pax, "ustar Interchange Format"; and tarfile.RECORDSIZE for the end of an archive.
_TAR_BLOCK_BYTES: Final = 512
_TAR_RECORD_BYTES: Final = 20 * _TAR_BLOCK_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedSample:
    """One image: its number, which is also its name, and the exact size of its file."""

    index: int
    size_bytes: int

    @property
    def name(self) -> str:
        """The name without an extension."""
        return name_of(self.index)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedObject:
    """One object: its key, relative to the data set's prefix, its exact size and the samples in it."""

    key: str
    size_bytes: int
    samples: tuple[PlannedSample, ...]
    is_shard: bool


def planned_size_bytes(spec: DatasetSpec, index: int) -> int:
    """The exact size of the image file of sample ``index``, as its distribution and the seed give it."""
    if spec.size_distribution == "constant":
        return spec.sample_size_bytes
    random = SampleRandom(seed=spec.seed, index=index, purpose=Purpose.SIZE)
    mean = spec.sample_size_bytes
    if spec.size_distribution == "uniform":
        size = mean * (1 + spec.size_spread * (2 * random.unit() - 1))
    else:
        # The mean of a lognormal is median * exp(sigma**2 / 2), so this median gives the mean that was asked for.
        median = mean / math.exp(spec.size_sigma**2 / 2)
        size = median * math.exp(spec.size_sigma * random.normal())
        size = min(size, mean * MAX_SIZE_FACTOR)
    return min(max(round(size), spec.smallest_size_bytes), spec.largest_size_bytes)


def planned_objects(spec: DatasetSpec) -> Iterator[PlannedObject]:
    """Yield every object of a data set, in the order of its keys."""
    samples = (PlannedSample(index=i, size_bytes=planned_size_bytes(spec, i)) for i in range(spec.num_samples))
    if not spec.is_sharded:
        for sample in samples:
            key = f"{sample.name}.{spec.extension}"
            yield PlannedObject(key=key, size_bytes=sample.size_bytes, samples=(sample,), is_shard=False)
        return
    number, packed, packed_bytes = 0, list[PlannedSample](), 0
    for sample in samples:
        member_bytes = _members_bytes(spec, sample)
        if packed and _is_full(spec, len(packed), packed_bytes + member_bytes):
            yield _shard(number, packed, packed_bytes)
            number, packed, packed_bytes = number + 1, [], 0
        packed.append(sample)
        packed_bytes += member_bytes
    yield _shard(number, packed, packed_bytes)


def _is_full(spec: DatasetSpec, samples: int, members_bytes: int) -> bool:
    """Whether a shard of so many samples cannot take the one that would make its members so long."""
    too_many = spec.samples_per_shard is not None and samples >= spec.samples_per_shard
    return too_many or (spec.shard_size_bytes is not None and _archive_bytes(members_bytes) > spec.shard_size_bytes)


def _shard(number: int, samples: list[PlannedSample], members_bytes: int) -> PlannedObject:
    key = f"shard-{number:06d}.tar"
    return PlannedObject(key=key, size_bytes=_archive_bytes(members_bytes), samples=tuple(samples), is_shard=True)


def _members_bytes(spec: DatasetSpec, sample: PlannedSample) -> int:
    """Bytes that a sample's members take in an archive: a header each, and content in whole blocks."""
    beside = members_beside(spec, index=sample.index, size_bytes=sample.size_bytes).values()
    sizes = (sample.size_bytes, *map(len, beside))
    return sum(_TAR_BLOCK_BYTES + _rounded_up(size, _TAR_BLOCK_BYTES) for size in sizes)


def _archive_bytes(members_bytes: int) -> int:
    """Size of an archive: its members, two empty blocks at the end, in whole records."""
    return _rounded_up(members_bytes + 2 * _TAR_BLOCK_BYTES, _TAR_RECORD_BYTES)


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
