"""Objects under given names: written where they are missing, and left alone where they are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bucketbench.datagen import DatagenError
from bucketbench.datagen.named_objects import ensure_objects, is_empty
from buckettestbed.launch import RunningTestbed, launch_testbed

OBJECTS = [(f"names/é{number:03d}", number % 3) for number in range(200)]


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["bucket"]) as testbed:
        yield testbed


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_what_is_missing_is_written_and_nothing_else(testbed: RunningTestbed, scheme: str) -> None:
    is_s3 = scheme == "s3"
    reached: dict[str, Any] = {"endpoint": testbed.s3_endpoint if is_s3 else testbed.gcs_endpoint, "anonymous": True}
    reached |= {"region": "us-east-1"} if is_s3 else {}
    uri, objects = f"{scheme}://bucket/{scheme}/names/", [(f"{scheme}/{key}", size) for key, size in OBJECTS]

    def written(objects: list[tuple[str, int]]) -> int:
        before = testbed.counts()["requests"]
        ensure_objects(uri, objects, **reached)
        after = testbed.counts()["requests"]
        return sum(after.get(name, 0) - before.get(name, 0) for name in after if name not in _LISTINGS)

    assert is_empty(uri, **reached)
    assert written(objects[:150]) == 150
    assert not is_empty(uri, **reached)
    assert written(objects) == 50
    assert written(objects) == 0
    assert written([(objects[0][0], 9), *objects[1:]]) == 1, "one of another size"


_LISTINGS = {"list_objects", "list_objects_v1", "list_objects_v2"}


def test_progress_is_told(testbed: RunningTestbed, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_objects(
        "s3://bucket/told/", [("told/a", 1), ("told/b", 2)], endpoint=testbed.s3_endpoint, region="us-east-1",
        anonymous=True,
    )  # fmt: skip
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "names under s3://bucket/told/: 0 of 2 objects, 0 B of 3 B"
    assert lines[-1] == "names under s3://bucket/told/: 2 of 2 objects, 3 B of 3 B"


def test_a_bucket_that_is_not_there_is_named(testbed: RunningTestbed) -> None:
    with pytest.raises(DatagenError, match=r"the objects under s3://nowhere/x/ could not be listed or written"):
        ensure_objects(
            "s3://nowhere/x/", [("x/a", 1)], endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True
        )
    with pytest.raises(DatagenError, match="endpoint"):
        is_empty("s3://nowhere/x/", endpoint="no address")
