"""google-cloud-storage and gcsfs do their work over the JSON API; content is compared."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gcsfs.core import GCSFileSystem
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.cloud.storage.retry import DEFAULT_RETRY

from buckettestbed import RunningTestbed, launch_testbed

CHUNK_BYTES = 256 << 10
LARGE = random.Random(1).randbytes(3 * CHUNK_BYTES + 12345)
ODD_KEYS = ["a//b", "./x", "../x", "d/", "a b+c", "x%2Fy", "é\U0001f600", "q?x=1&y#z"]


NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


def google_client(testbed: RunningTestbed) -> Any:
    options = {"api_endpoint": testbed.gcs_endpoint}
    return storage.Client(project="p", credentials=AnonymousCredentials(), client_options=options)


@pytest.fixture
def bucket(testbed: RunningTestbed) -> Iterator[Any]:
    """A bucket of google-cloud-storage for one test, which leaves no session open."""
    bucket = google_client(testbed).create_bucket(f"bucket-{next(NUMBERS)}")
    testbed.reset_counts()
    yield bucket
    assert testbed.open_uploads() == []
    bucket.delete(force=True)


@pytest.fixture
def files(testbed: RunningTestbed, bucket: Any) -> GCSFileSystem:
    """gcsfs without caches, and without its subclass that probes buckets over gRPC."""
    return GCSFileSystem(
        endpoint_url=testbed.gcs_endpoint, token="anon", project="p", skip_instance_cache=True, use_listings_cache=False
    )


def test_google_saves_and_loads(bucket: Any, testbed: RunningTestbed) -> None:
    for key in ODD_KEYS:
        bucket.blob(key).upload_from_string(key.encode(), content_type="a/b")
        assert bucket.blob(key).download_as_bytes() == key.encode()
        assert bucket.get_blob(key).content_type == "a/b"
    assert [blob.name for blob in bucket.list_blobs()] == sorted(ODD_KEYS)
    bucket.blob("empty").upload_from_string(b"")
    assert bucket.blob("empty").download_as_bytes() == b""
    bucket.blob("k").upload_from_string(LARGE)
    assert bucket.blob("k").download_as_bytes(start=10, end=19) == LARGE[10:20]
    for checksum in ("md5", "crc32c"):
        assert bucket.blob("k").download_as_bytes(checksum=checksum) == LARGE
    with pytest.raises(exceptions.RequestRangeNotSatisfiable):
        bucket.blob("k").download_as_bytes(start=len(LARGE))
    with pytest.raises(exceptions.NotFound, match="No such object"):
        bucket.blob("none").download_as_bytes()
    assert "unknown" not in testbed.counts()["requests"]


@pytest.mark.parametrize("size", [len(LARGE), 2 * CHUNK_BYTES, 0])
def test_google_uploads_in_chunks(bucket: Any, testbed: RunningTestbed, size: int) -> None:
    for checksum in ("crc32c", "md5", None):
        bucket.blob("file", chunk_size=CHUNK_BYTES).upload_from_file(io.BytesIO(LARGE[:size]), checksum=checksum)
        assert bucket.blob("file").download_as_bytes() == LARGE[:size]
    with bucket.blob("stream", chunk_size=CHUNK_BYTES).open("wb") as stream:  # Its size is known at the end only.
        stream.write(LARGE[:size])
    assert bucket.blob("stream").download_as_bytes() == LARGE[:size]
    counts = testbed.counts()["requests"]
    assert counts["start_session"] == 4
    assert counts.get("upload_chunk", 0) >= 3 * (size // CHUNK_BYTES)


@pytest.mark.parametrize("kind", ["lost_response", "reset"])
def test_google_goes_on_with_a_broken_session(bucket: Any, testbed: RunningTestbed, kind: str) -> None:
    testbed.set_faults({"rules": [{"kind": kind, "operations": ["upload_chunk"], "nth": 2}]})
    try:
        blob = bucket.blob("k", chunk_size=CHUNK_BYTES)
        blob.upload_from_file(io.BytesIO(LARGE), retry=DEFAULT_RETRY.with_delay(initial=0.01))
    finally:
        testbed.set_faults({})
    assert bucket.blob("k").download_as_bytes() == LARGE
    assert testbed.counts()["requests"]["start_session"] == 1


def test_google_moves_many_files(bucket: Any, tmp_path: Path) -> None:
    names = [f"file-{index}" for index in range(5)]
    for index, name in enumerate(names):
        (tmp_path / name).write_bytes(LARGE[: index * 1000])
    options = {"worker_type": transfer_manager.THREAD, "max_workers": 3}
    sent = transfer_manager.upload_many_from_filenames(bucket, names, source_directory=str(tmp_path), **options)
    assert sent == [None] * 5
    target = tmp_path / "down"
    received = transfer_manager.download_many_to_path(bucket, names, destination_directory=str(target), **options)
    assert received == [None] * 5
    assert [(target / name).read_bytes() for name in names] == [(tmp_path / name).read_bytes() for name in names]
    bucket.blob("k").upload_from_string(LARGE)
    transfer_manager.download_chunks_concurrently(
        bucket.blob("k"), str(tmp_path / "k"), chunk_size=CHUNK_BYTES, **options
    )
    assert (tmp_path / "k").read_bytes() == LARGE


def test_google_lists_page_by_page(bucket: Any, testbed: RunningTestbed) -> None:
    client = bucket.client
    names = [f"{folder}/{index:03}" for folder in "abc" for index in range(7)]
    for name in names:
        bucket.blob(name).upload_from_string(name)
    assert [blob.name for blob in client.list_blobs(bucket, page_size=4, fields="items(name),nextPageToken")] == names
    bounded = client.list_blobs(bucket, start_offset="a/005", end_offset="b/002")
    assert [blob.name for blob in bounded] == ["a/005", "a/006", "b/000", "b/001"]
    folders = client.list_blobs(bucket, delimiter="/", page_size=1)
    assert ([*folders], folders.prefixes) == ([], {"a/", "b/", "c/"})
    assert [blob.name for blob in client.list_blobs(bucket, match_glob="*/006")] == ["a/006", "b/006", "c/006"]
    assert testbed.counts()["requests"]["list_objects"] >= 6 + 1 + 3 + 1


def test_google_changes_objects_on_the_server(bucket: Any, testbed: RunningTestbed) -> None:
    blobs = [bucket.blob(f"part-{index}") for index in range(3)]
    for index, blob in enumerate(blobs):
        blob.upload_from_string(bytes([index]) * 1000)
    whole = bucket.blob("whole")
    whole.compose(blobs, if_generation_match=0)
    assert (whole.component_count, whole.md5_hash) == (3, None)
    assert whole.download_as_bytes() == b"".join(bytes([index]) * 1000 for index in range(3))
    whole.metadata = {"x": "ü"}
    whole.patch()
    token, written, total = bucket.blob("rewritten").rewrite(whole)
    assert (token, written, total) == (None, 3000, 3000)
    copied = bucket.copy_blob(whole, bucket, "copied", if_generation_match=0)
    assert (copied.metadata, copied.crc32c) == ({"x": "ü"}, whole.crc32c)
    assert bucket.move_blob(copied, "moved").name == "moved"
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("moved").upload_from_string(b"x", if_generation_match=0)
    with bucket.client.batch():
        for blob in blobs:
            blob.delete()
    assert {blob.name for blob in bucket.list_blobs()} == {"whole", "rewritten", "moved"}
    with pytest.raises(exceptions.NotFound), bucket.client.batch():
        bucket.delete_blob("none")
    with pytest.raises(exceptions.Conflict):
        bucket.delete()
    assert bucket.test_iam_permissions(["storage.objects.get"]) == ["storage.objects.get"]


def test_google_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with launch_testbed(buckets=["data"], tls=True) as secure:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(secure.ca_certificate))
        blob = google_client(secure).bucket("data").blob("k", chunk_size=CHUNK_BYTES)
        blob.upload_from_file(io.BytesIO(LARGE))  # Goes to the address of the session.
        assert blob.media_link.startswith("https://")
        assert blob.download_as_bytes() == LARGE


def test_gcsfs_saves_and_loads(files: GCSFileSystem, bucket: Any, testbed: RunningTestbed) -> None:
    root = bucket.name
    for body in (b"", b"plain", b"ends in a carriage return\r", LARGE):
        files.pipe_file(f"{root}/k", body)
        assert files.cat_file(f"{root}/k") == body
    assert files.cat_file(f"{root}/k", start=100, end=200) == LARGE[100:200]
    assert files.cat_file(f"{root}/k", start=-9) == LARGE[-9:]
    for size in (len(LARGE), 2 * CHUNK_BYTES):
        with files.open(f"{root}/stream", "wb", block_size=CHUNK_BYTES) as file:
            file.write(LARGE[:size])
        with files.open(f"{root}/stream", "rb", block_size=CHUNK_BYTES) as file:
            assert file.read() == LARGE[:size]
    discarded = files.open(f"{root}/discarded", "wb", block_size=CHUNK_BYTES, autocommit=False)
    discarded.write(LARGE)
    discarded.discard()
    assert not files.exists(f"{root}/discarded")
    with pytest.raises(FileNotFoundError):
        files.cat_file(f"{root}/none")
    with pytest.raises(FileExistsError):
        files.pipe_file(f"{root}/k", b"x", mode="create")
    counts = testbed.counts()["requests"]
    assert counts["start_session"] == 3
    assert counts["cancel_session"] == 1


def test_gcsfs_lists_and_changes(files: GCSFileSystem, bucket: Any) -> None:
    root = bucket.name
    for name in ("a/b", "a/c/d", "e"):
        files.pipe_file(f"{root}/{name}", name.encode())
    assert sorted(files.ls(root, detail=False)) == [f"{root}/a", f"{root}/e"]
    assert sorted(files.find(f"{root}/a")) == [f"{root}/a/b", f"{root}/a/c/d"]
    assert files.glob(f"{root}/a/*") == [f"{root}/a/b", f"{root}/a/c"]
    assert files.info(f"{root}/e")["size"] == 1
    files.mv(f"{root}/e", f"{root}/moved")
    files.copy(f"{root}/a/b", f"{root}/copied")
    files.merge(f"{root}/merged", [f"{root}/a/b", f"{root}/moved"])
    assert files.cat_file(f"{root}/merged") == b"a/be"
    files.setxattrs(f"{root}/merged", x="y")
    assert files.getxattr(f"{root}/merged", "x") == "y"
    files.rm(f"{root}/a", recursive=True)
    assert sorted(files.find(root)) == [f"{root}/copied", f"{root}/merged", f"{root}/moved"]
