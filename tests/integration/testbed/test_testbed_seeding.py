"""Objects that the testbed is given by its admin route are objects like any other."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from buckettestbed.launch import RunningTestbed, TestbedError, launch_testbed


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["seeds"]) as testbed:
        yield testbed


def get(url: str) -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(url) as answer:
        return answer.read(), {name.lower(): value for name, value in answer.headers.items()}


def test_they_are_read_and_listed_by_both_providers(testbed: RunningTestbed) -> None:
    assert testbed.put_objects("seeds", iter([("x/empty", 0), ("x/five", 5), ("x/ü \U0001d538", 1)])) == 3
    content, headers = get(f"{testbed.s3_endpoint}/seeds/x/five")
    assert content == bytes(5)
    assert headers["etag"] == '"ca9c491ac66b2c62500882e93f3719a8"', "the MD5 of five zero bytes, as a PUT gives"
    listed, _ = get(f"{testbed.gcs_endpoint}/storage/v1/b/seeds/o?prefix=x/&fields=items(name,size)")
    assert json.loads(listed)["items"] == [
        {"name": "x/empty", "size": "0"}, {"name": "x/five", "size": "5"}, {"name": "x/ü \U0001d538", "size": "1"},
    ]  # fmt: skip
    assert testbed.counts()["requests"].get("put_object", 0) == 0


def test_more_than_one_request_takes_are_put(testbed: RunningTestbed) -> None:
    assert testbed.put_objects("seeds", ((f"many/{number}", 0) for number in range(10_001))) == 10_001
    testbed.put_objects("seeds", [("many/0", 7)])
    listed, _ = get(f"{testbed.gcs_endpoint}/storage/v1/b/seeds/o?prefix=many/&maxResults=1&fields=items(size)")
    assert json.loads(listed)["items"] == [{"size": "7"}], "the later one replaces the earlier"


@pytest.mark.parametrize(
    ("bucket", "objects", "words"),
    [
        ("absent", [("a", 0)], "there is no bucket 'absent'"),
        ("seeds", [("fine", 0), ("a", -1)], r"one of the objects is [\"a\", -1]"),
        ("seeds", [("", 0)], "a key of 1 to 1024 bytes"),
        ("seeds", [("é" * 513, 0)], "a key of 1 to 1024 bytes"),
        ("seeds", [("\ud800", 0)], "a key of 1 to 1024 bytes"),
        ("seeds", [("a", (1 << 20) + 1)], "a size of 0 to 1048576 bytes"),
        ("seeds", [("a", True)], "a size of 0"),
        ("seeds", [("a", 0, 0)], "a pair of a key"),
    ],
)
def test_what_is_no_object_is_refused_and_nothing_is_put(
    testbed: RunningTestbed, bucket: str, objects: list[tuple[str, int]], words: str
) -> None:
    with pytest.raises(TestbedError) as refused:
        testbed.put_objects(bucket, objects)
    assert words in str(refused.value).replace("\\\\", "\\")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{testbed.s3_endpoint}/seeds/fine")


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"bucket": "seeds", "objects": {}}'])
def test_another_body_is_refused(testbed: RunningTestbed, body: bytes) -> None:
    request = urllib.request.Request(f"{testbed.admin}/objects", data=body, method="POST")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request)


def test_they_are_kept_in_a_directory_too(tmp_path: Path) -> None:
    for given in (3, 0):
        with launch_testbed(buckets=["seeds"], directory=tmp_path) as testbed:
            testbed.put_objects("seeds", [(f"kept/{number}", number) for number in range(given)])
            assert get(f"{testbed.s3_endpoint}/seeds/kept/2")[0] == bytes(2)
