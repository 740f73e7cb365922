"""What the two holders promise about bytes: any range, nothing left behind, old bytes until the end."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from pathlib import Path

import google_crc32c
import pytest
from asgi_driver import Driver
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.model.buckets import Buckets, Storage
from buckettestbed.model.contents import ContentGoneError, pieces
from buckettestbed.model.directory import DirectoryStorage
from buckettestbed.model.errors import DirectoryError
from buckettestbed.model.memory import MemoryContent, MemoryStorage
from buckettestbed.model.objects import Attributes


@pytest.fixture(params=["memory", "directory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else DirectoryStorage(tmp_path)


@given(
    segments=st.lists(st.binary(max_size=12), max_size=6),
    start=st.integers(0, 80),
    length=st.integers(0, 80),
    piece=st.integers(1, 20),
)
def test_segments_read_as_one(segments: list[bytes], start: int, length: int, piece: int) -> None:
    whole, content = b"".join(segments), MemoryContent(segments)
    stop = min(len(whole), start + length)
    assert content.size_bytes == len(whole)
    found = [bytes(part) for part in pieces(content, start, stop, piece)]
    assert b"".join(found) == whole[start:stop]
    assert all(0 < len(part) <= piece for part in found)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, (1 << 20) + 1])
def test_a_body_comes_back_with_its_digests(storage: Storage, size: int) -> None:
    body = os.urandom(size)

    async def receive() -> tuple[bytes, dict[str, bytes]]:
        incoming = storage.receive(["md5", "crc32c", "sha256"])
        for start in range(0, size, 100_000):
            incoming.write(body[start : start + 100_000])
        received = await incoming.finish()
        return b"".join(pieces(received.content, 0, size)), dict(received.digests)

    found, digests = asyncio.run(receive())
    assert found == body
    assert digests == {
        "md5": hashlib.md5(body).digest(),
        "crc32c": google_crc32c.Checksum(body).digest(),
        "sha256": hashlib.sha256(body).digest(),
    }


def files(folder: Path) -> list[str]:
    """The files that hold bytes of objects."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in (".buckettestbed", ".bucket"))
    return sorted(str(path.relative_to(folder)) for path in found)


def test_a_refused_upload_leaves_no_file(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path))
    wrong = {"content-md5": base64.b64encode(bytes(16)).decode()}
    assert driver.ask("PUT", "/data/key", headers=wrong, body=b"x").code == "BadDigest"
    assert driver.ask("PUT", "/data/key", headers={"content-length": "5"}, body=b"x").code == "IncompleteBody"
    upload = driver.ask("POST", "/data/key", "uploads").xml.findtext("UploadId")
    for _ in range(2):
        driver.ask("PUT", "/data/key", f"uploadId={upload}&partNumber=1", body=b"x")
    assert len(files(tmp_path)) == 1
    driver.ask("DELETE", "/data/key", f"uploadId={upload}")
    assert files(tmp_path) == []


def test_a_completed_upload_leaves_one_file(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path))
    upload = driver.ask("POST", "/data/key", "uploads").xml.findtext("UploadId")
    etag = driver.ask("PUT", "/data/key", f"uploadId={upload}&partNumber=1", body=b"x").headers["etag"]
    body = (
        f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    )
    assert driver.ask("POST", "/data/key", f"uploadId={upload}", body=body.encode()).status == 200
    assert len(files(tmp_path)) == 1
    driver.ask("DELETE", "/data/key")
    assert files(tmp_path) == []


def test_no_key_leaves_the_directory(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path / "inside"))
    for key in ("../../escape", "/etc/passwd", "..", ".", "a/../../../../b"):
        driver.put(key, key.encode())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside"]
    driver.buckets.storage.close()
    again = Buckets(DirectoryStorage(tmp_path / "inside"))
    assert sorted(again.bucket("data").objects) == sorted(("../../escape", "/etc/passwd", "..", ".", "a/../../../../b"))


def test_a_record_larger_than_the_first_look_is_read(tmp_path: Path) -> None:
    buckets = Buckets(DirectoryStorage(tmp_path))
    bucket = buckets.create_bucket("data")

    async def put() -> None:
        received = await buckets.receive().finish()
        attributes = Attributes(metadata={"large": "x" * 10_000})
        buckets.put(
            bucket, "key", content=received.content, etag="e", attributes=attributes, part_sizes_bytes=(1,) * 9000
        )

    asyncio.run(put())
    buckets.storage.close()
    found = Buckets(DirectoryStorage(tmp_path)).bucket("data").objects["key"]
    assert (len(found.attributes.metadata["large"]), len(found.part_sizes_bytes)) == (10_000, 9000)


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    first = Driver(DirectoryStorage(tmp_path))
    first.put("key", b"body")
    first.buckets.storage.close()
    path = tmp_path / files(tmp_path)[0]
    path.write_bytes(b"cut short")
    with pytest.raises(DirectoryError, match=rf"{path.name} is not an object"):
        Buckets(DirectoryStorage(tmp_path))


def test_an_object_replaced_while_it_is_copied_is_never_mixed_in(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path))
    driver.put("key", b"old bytes")
    content = driver.buckets.bucket("data").objects["key"].content
    reader = content.open()
    driver.put("key", b"new bytes")
    assert reader.read(0, 9) == b"old bytes"
    reader.close()
    with pytest.raises(ContentGoneError, match="was replaced"):
        content.open()
    assert driver.ask("GET", "/data/key").body == b"new bytes"
