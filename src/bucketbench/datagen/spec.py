"""What a generated data set looks like: a frozen value that fixes every byte of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self, get_args

from bucketbench.datagen.errors import DatagenError

__all__ = ["MAX_SIZE_FACTOR", "SHARD_EXTENSIONS", "DatasetSpec", "ImageFormat", "SizeDistribution"]

ImageFormat = Literal["jpeg", "png", "bytes"]
SizeDistribution = Literal["constant", "lognormal", "uniform"]

SHARD_EXTENSIONS: Final = ("cls", "json")
"""Which members a sample of a tar shard may have beside its image, by WebDataset's usual extensions: the label as a
decimal number, and a JSON object of key, label and pixels."""

# A lognormal size is kept within this factor of the mean, so that every draw can be made and none fills the memory.
MAX_SIZE_FACTOR: Final = 8

_SMALLEST_IMAGE_BYTES: Final = 2048  # a JPEG's tables and headers alone take 623 bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSpec:
    """Says what to generate. Two equal specs give the same bytes, however many processes make them.

    (The same bytes for the same release of Pillow and its JPEG library, which a manifest names.)

    Args:
        num_samples: number of images.
        sample_size_bytes: mean size of an image file. Every file has exactly the size drawn for it.
        size_distribution: ``constant``; ``lognormal`` (mean ``sample_size_bytes``, sigma ``size_sigma`` of the natural
            logarithm, kept within a factor of ``MAX_SIZE_FACTOR``); ``uniform`` (from ``sample_size_bytes`` times
            1 - ``size_spread`` to times 1 + ``size_spread``).
        size_sigma: sigma of ``lognormal``.
        size_spread: half width of ``uniform``, as a fraction of the mean, below 1.
        image_format: ``jpeg`` or ``png``; or ``bytes``, random bytes that are no image and that nothing compresses.
        resolution: width and height in pixels; None picks, for each image, the square that a typical file of its size
            has (see :mod:`bucketbench.datagen.images`).
        shard_size_bytes: None makes one object an image; otherwise images are packed into tar shards of at most this
            size (one that is larger than a shard gets a shard of its own), and an object is a shard.
        samples_per_shard: the same by number: a shard has at most so many samples. Where both are given, a shard ends
            with whichever it reaches first.
        extensions: of the members that a sample of a shard has beside its image, of ``SHARD_EXTENSIONS``.
        num_classes: labels run from 0 to below this; they are in the shards' ``.cls`` and ``.json`` members.
        seed: fixes sizes, images and labels.

    Raises:
        DatagenError: a field has a wrong value; the message names it.
    """

    num_samples: int
    sample_size_bytes: int = 100 << 10
    size_distribution: SizeDistribution = "constant"
    size_sigma: float = 0.5
    size_spread: float = 0.5
    image_format: ImageFormat = "jpeg"
    resolution: tuple[int, int] | None = None
    shard_size_bytes: int | None = None
    samples_per_shard: int | None = None
    extensions: tuple[str, ...] = ("cls",)
    num_classes: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_int("num_samples", 1, 10**9)
        self._check_int("num_classes", 1, 10**6)
        self._check_int("seed", 0, 2**63 - 1)
        self._check_choice("size_distribution", get_args(SizeDistribution))
        self._check_choice("image_format", get_args(ImageFormat))
        self._check_int("sample_size_bytes", self._least_bytes, 1 << 30)
        if self.image_format == "bytes" and self.resolution is not None:
            raise self._wrong("resolution", "left out for image_format=bytes, which has no pixels")
        self._check_float("size_sigma", 0.0, 2.0)
        self._check_float("size_spread", 0.0, 0.95)
        if self.shard_size_bytes is not None:
            self._check_int("shard_size_bytes", 64 << 10, 1 << 40)
        if self.samples_per_shard is not None:
            self._check_int("samples_per_shard", 1, 10**9)
        # As the resolution below.
        object.__setattr__(self, "extensions", tuple(self.extensions))
        if not set(self.extensions) <= set(SHARD_EXTENSIONS) or len(set(self.extensions)) < len(self.extensions):
            raise self._wrong("extensions", f"different ones of {', '.join(SHARD_EXTENSIONS)}")
        if self.resolution is not None:
            # A list arrives from JSON and YAML; keep the value hashable and equal to one built with a tuple.
            object.__setattr__(self, "resolution", tuple(self.resolution))
            sides = self.resolution
            # 65,535 is the largest side a JPEG can state (ITU-T T.81, B.2.2); 8 is one block.
            if len(sides) != 2 or not all(isinstance(side, int) and 8 <= side <= 65_535 for side in sides):
                raise self._wrong("resolution", "a width and a height from 8 to 65535 pixels")

    @property
    def extension(self) -> str:
        """The samples' file name extension, without a dot."""
        return {"jpeg": "jpg", "png": "png", "bytes": "bin"}[self.image_format]

    @property
    def is_sharded(self) -> bool:
        """Whether images are packed into tar shards."""
        return self.shard_size_bytes is not None or self.samples_per_shard is not None

    @property
    def _least_bytes(self) -> int:
        return 1 if self.image_format == "bytes" else _SMALLEST_IMAGE_BYTES

    @property
    def smallest_size_bytes(self) -> int:
        """The smallest size that may be drawn."""
        mean = self.sample_size_bytes
        if self.size_distribution == "constant":
            return mean
        if self.size_distribution == "uniform":
            return max(self._least_bytes, math.floor(mean * (1 - self.size_spread)))
        return max(self._least_bytes, mean // MAX_SIZE_FACTOR)

    @property
    def largest_size_bytes(self) -> int:
        """The largest size that may be drawn."""
        mean = self.sample_size_bytes
        if self.size_distribution == "constant":
            return mean
        if self.size_distribution == "uniform":
            return math.ceil(mean * (1 + self.size_spread))
        return mean * MAX_SIZE_FACTOR

    def to_json(self) -> dict[str, Any]:
        """The spec as plain JSON values."""
        fields = asdict(self)
        fields["resolution"] = None if self.resolution is None else list(self.resolution)
        fields["extensions"] = list(self.extensions)
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The spec of which ``to_json`` gave the fields; raise ``DatagenError`` where they are not a spec's."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise DatagenError(f"not the description of a data set: {error}") from None

    def _check_int(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(name, f"a whole number from {least} to {most}")

    def _check_float(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(name, f"a number from {least} to {most}")

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise self._wrong(name, f"one of {', '.join(choices)}")

    def _wrong(self, name: str, accepted: str) -> DatagenError:
        return DatagenError(f"a data set's {name} must be {accepted}; got {getattr(self, name)!r}")
