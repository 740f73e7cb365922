"""fsspec's own suite of what every file system does: copy, get, put, pipe and open, on both providers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bucket_places import Place
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

from torchbucket.fsspec import BucketFileSystem


class _Fixtures(AbstractFixtures):
    protocol = ""

    @pytest.fixture
    def here(self, place_for: Callable[[str], Place]) -> Place:
        return place_for(self.protocol)

    @pytest.fixture
    def fs(self, here: Place) -> BucketFileSystem:
        return here.fs

    @pytest.fixture
    def fs_path(self, here: Place) -> str:
        return here.path

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False  # a bucket knows keys only


class _S3(_Fixtures):
    protocol = "s3"


@pytest.mark.nightly  # The same calls of the same code: each commit runs them on S3, and our own tests on both.
class _Gcs(_Fixtures):
    protocol = "gs"


class TestCopyOnS3(_S3, AbstractCopyTests):
    """Copies within a bucket."""


class TestGetOnS3(_S3, AbstractGetTests):
    """Downloads."""


class TestPutOnS3(_S3, AbstractPutTests):
    """Uploads."""


class TestPipeOnS3(_S3, AbstractPipeTests):
    """Writes from memory."""


class TestOpenOnS3(_S3, AbstractOpenTests):
    """File objects."""


class TestCopyOnGcs(_Gcs, AbstractCopyTests):
    """Copies within a bucket."""


class TestGetOnGcs(_Gcs, AbstractGetTests):
    """Downloads."""


class TestPutOnGcs(_Gcs, AbstractPutTests):
    """Uploads."""


class TestPipeOnGcs(_Gcs, AbstractPipeTests):
    """Writes from memory."""


class TestOpenOnGcs(_Gcs, AbstractOpenTests):
    """File objects."""
