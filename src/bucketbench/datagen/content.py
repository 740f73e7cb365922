"""The content of one sample: an image, or plain random bytes."""

from __future__ import annotations

from bucketbench.datagen.images import check_sizes, encode_image
from bucketbench.datagen.randomness import Purpose, SampleRandom
from bucketbench.datagen.spec import DatasetSpec

__all__ = ["check_content", "sample_content"]


def check_content(spec: DatasetSpec) -> None:
    """Raise ``DatagenError`` where samples of the spec's sizes cannot be made."""
    if spec.image_format != "bytes":
        check_sizes(spec)


def sample_content(spec: DatasetSpec, *, index: int, size_bytes: int) -> bytes:
    """Make the file of sample ``index``, exactly ``size_bytes`` long.

    Raises:
        DatagenError: no image of the spec's resolution is so small or so large.
    """
    if spec.image_format == "bytes":
        return SampleRandom(seed=spec.seed, index=index, purpose=Purpose.IMAGE).octets(size_bytes).tobytes()
    return encode_image(spec, index=index, size_bytes=size_bytes)
