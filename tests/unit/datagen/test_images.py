"""Images are decodable, of the exact size and resolution, and hardly padded."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from bucketbench.datagen import DatagenError, DatasetSpec
from bucketbench.datagen.images import check_sizes, encode_image, resolution_of


def spec_of(**fields: Any) -> DatasetSpec:
    return DatasetSpec(num_samples=1, **fields)


def decoded(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    image.load()
    return image


def content_bytes(content: bytes) -> int:
    """Bytes of a file without its padding, found by a walk over its segments or chunks."""
    if content.startswith(b"\x89PNG"):
        position, padding = 8, 0
        while position < len(content):
            length = int.from_bytes(content[position : position + 4], "big") + 12
            padding += length if content[position + 4 : position + 8] == b"bbPd" else 0
            position += length
        return len(content) - padding
    position = 2
    while content[position : position + 2] in (b"\xff\xfe", b"\xff\xff"):
        is_fill = content[position + 1] == 0xFF
        position += 1 if is_fill else 2 + int.from_bytes(content[position + 2 : position + 4], "big")
    return len(content) - (position - 2)


@given(
    size_bytes=st.integers(2048, 200_000),
    index=st.integers(0, 10**6),
    image_format=st.sampled_from(["jpeg", "png"]),
    seed=st.integers(0, 3),
)
@settings(max_examples=examples(20))
def test_any_size_is_met_exactly_and_decodes(size_bytes: int, index: int, image_format: str, seed: int) -> None:
    spec = spec_of(sample_size_bytes=size_bytes, image_format=image_format, seed=seed)
    content = encode_image(spec, index=index, size_bytes=size_bytes)
    image = decoded(content)
    assert len(content) == size_bytes
    assert image.format == image_format.upper()
    assert image.size == resolution_of(spec, size_bytes)


@pytest.mark.parametrize("image_format", ["jpeg", "png"])
@pytest.mark.parametrize("size_bytes", [20_000, 100 << 10, 300_000])
def test_little_of_a_file_is_padding(image_format: str, size_bytes: int) -> None:
    spec = spec_of(sample_size_bytes=size_bytes, image_format=image_format)
    shares = [content_bytes(encode_image(spec, index=i, size_bytes=size_bytes)) / size_bytes for i in range(8)]
    assert min(shares) > 0.95


def test_the_same_sample_gives_the_same_bytes_and_another_one_others() -> None:
    spec = spec_of()
    first = encode_image(spec, index=3, size_bytes=50_000)
    assert encode_image(spec, index=3, size_bytes=50_000) == first
    assert encode_image(spec, index=4, size_bytes=50_000) != first
    assert encode_image(spec_of(seed=1), index=3, size_bytes=50_000) != first


def test_a_fixed_resolution_is_kept() -> None:
    spec = spec_of(resolution=(320, 200), sample_size_bytes=30_000)
    assert decoded(encode_image(spec, index=0, size_bytes=30_000)).size == (320, 200)


def test_pictures_are_no_flat_fill() -> None:
    pixels = np.asarray(decoded(encode_image(spec_of(), index=0, size_bytes=100 << 10)).convert("L"))
    assert pixels.std() > 10


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"resolution": (64, 64), "sample_size_bytes": 1 << 20}, "at most"),
        ({"resolution": (4000, 4000), "sample_size_bytes": 10_000}, "at least"),
        ({"resolution": (64, 64), "sample_size_bytes": 1 << 20, "image_format": "png"}, "at most"),
        ({"resolution": (256, 256), "size_distribution": "lognormal"}, "at most"),
    ],
)
def test_an_impossible_size_names_the_nearest(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(DatagenError, match=words) as caught:
        check_sizes(spec_of(**fields))
    assert "x".join(map(str, fields["resolution"])) in str(caught.value)


@pytest.mark.parametrize("fields", [{"sample_size_bytes": 1 << 30}, {"resolution": (20_000, 20_000)}])
def test_more_pixels_than_decoders_open_are_refused_at_once(fields: dict[str, Any]) -> None:
    with pytest.raises(DatagenError, match=r"more than 178,956,970 pixels; .*image_format=bytes"):
        check_sizes(spec_of(**fields))


def test_making_a_large_image_takes_a_bounded_multiple_of_its_size() -> None:
    size_bytes = 4 << 20
    spec = DatasetSpec(num_samples=1, sample_size_bytes=size_bytes)
    tracemalloc.start()
    try:
        encode_image(spec, index=0, size_bytes=size_bytes)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 25 * size_bytes, "arrays of whole images, in more than a byte a value"
