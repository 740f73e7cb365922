"""Which objects a data set consists of, with their exact sizes, before a single one is made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bucketbench.datagen.randomness import Purpose, SampleRandom
from bucketbench.datagen.spec import MAX_SIZE_FACTOR, DatasetSpec

__all__ = ["PlannedObject", "PlannedSample", "label_of", "planned_objects", "planned_size_bytes"]

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
        return f"{self.index:09d}"


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


def label_of(spec: DatasetSpec, index: int) -> int:
    """The class of sample ``index``, in [0, ``spec.num_classes``)."""
    return SampleRandom(seed=spec.seed, index=index, purpose=Purpose.LABEL).below(spec.num_classes)


def planned_objects(spec: DatasetSpec) -> Iterator[PlannedObject]:
    """Yield every object of a data set, in the order of its keys."""
    samples = (PlannedSample(index=i, size_bytes=planned_size_bytes(spec, i)) for i in range(spec.num_samples))
    if spec.shard_size_bytes is None:
        for sample in samples:
            key = f"{sample.name}.{spec.extension}"
            yield PlannedObject(key=key, size_bytes=sample.size_bytes, samples=(sample,), is_shard=False)
        return
    number, packed, packed_bytes = 0, list[PlannedSample](), 0
    for sample in samples:
        member_bytes = _members_bytes(spec, sample)
        if packed and _archive_bytes(packed_bytes + member_bytes) > spec.shard_size_bytes:
            yield _shard(number, packed, packed_bytes)
            number, packed, packed_bytes = number + 1, [], 0
        packed.append(sample)
        packed_bytes += member_bytes
    yield _shard(number, packed, packed_bytes)


def _shard(number: int, samples: list[PlannedSample], members_bytes: int) -> PlannedObject:
    key = f"shard-{number:06d}.tar"
    return PlannedObject(key=key, size_bytes=_archive_bytes(members_bytes), samples=tuple(samples), is_shard=True)


def _members_bytes(spec: DatasetSpec, sample: PlannedSample) -> int:
    """Bytes that a sample's image and label take in an archive: a header each, and content in whole blocks."""
    label_bytes = len(str(label_of(spec, sample.index)))
    return sum(_TAR_BLOCK_BYTES + _rounded_up(size, _TAR_BLOCK_BYTES) for size in (sample.size_bytes, label_bytes))


def _archive_bytes(members_bytes: int) -> int:
    """Size of an archive: its members, two empty blocks at the end, in whole records."""
    return _rounded_up(members_bytes + 2 * _TAR_BLOCK_BYTES, _TAR_RECORD_BYTES)


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
