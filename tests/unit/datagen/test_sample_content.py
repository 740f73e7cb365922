"""Samples that are no images: random bytes of the exact size."""

from __future__ import annotations

import zlib

import pytest

from bucketbench.datagen import DatagenError, DatasetSpec
from bucketbench.datagen.content import sample_content


def test_random_bytes_have_the_size_and_do_not_compress() -> None:
    spec = DatasetSpec(num_samples=2, sample_size_bytes=10_001, image_format="bytes")
    first, second = (sample_content(spec, index=index, size_bytes=10_001) for index in range(2))
    assert len(first) == len(second) == 10_001
    assert len(zlib.compress(first, 9)) > 10_000
    assert first != second
    assert first == sample_content(spec, index=0, size_bytes=10_001)


def test_random_bytes_may_be_few() -> None:
    assert DatasetSpec(num_samples=1, sample_size_bytes=1, image_format="bytes").extension == "bin"


def test_random_bytes_have_no_resolution() -> None:
    with pytest.raises(DatagenError, match="no pixels"):
        DatasetSpec(num_samples=1, image_format="bytes", resolution=(8, 8))
