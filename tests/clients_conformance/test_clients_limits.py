"""The providers' limits, met by a real client: 10,000 parts, and not one more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import obstore
import pytest
from behaviour import noise
from client_obstore import ObstoreGcs, ObstoreS3
from client_shape import Place
from wire import Wire

from buckettestbed import RunningTestbed, launch_testbed

pytestmark = pytest.mark.nightly  # tests/unit/testbed refuses the 10,001st part on each commit.

PARTS_LIMIT = 10_000
PART_BYTES = 3


@pytest.fixture(scope="module")
def small_parts_testbed() -> Iterator[RunningTestbed]:
    """A testbed that takes parts of any size; the providers ask for 5 MiB."""
    with launch_testbed(minimum_part_bytes=1) as running:
        yield running


@pytest.mark.parametrize("kind", [ObstoreS3, ObstoreGcs])
def test_an_upload_in_as_many_parts_as_there_may_be(
    kind: type[ObstoreS3 | ObstoreGcs], small_parts_testbed: RunningTestbed
) -> None:
    body = noise(PARTS_LIMIT * PART_BYTES)
    options = {"use_multipart": True, "chunk_size": PART_BYTES}
    with contextlib.closing(Wire(small_parts_testbed)) as wire:
        store = kind(Place.of(small_parts_testbed, wire.bucket)).store
        small_parts_testbed.reset_counts()
        assert obstore.put(store, "whole", body, **options)["e_tag"].endswith(f'-{PARTS_LIMIT}"')
        assert small_parts_testbed.counts()["requests"]["upload_part"] == PARTS_LIMIT
        assert bytes(obstore.get(store, "whole").bytes()) == wire.get("whole") == body
        with pytest.raises(obstore.exceptions.GenericError, match=f"partNumber={PARTS_LIMIT + 1}.*400"):
            obstore.put(store, "too-many", body + b"x", **options)
        assert wire.names() == ["whole"]
        assert small_parts_testbed.open_uploads() == []
