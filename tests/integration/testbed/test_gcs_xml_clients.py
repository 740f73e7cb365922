"""The XML API of GCS as obstore and google-cloud-storage's transfer manager use it, and both ways of answering a
GET."""

from __future__ import annotations

import http.client
import io
import random
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.cloud.storage.exceptions import DataCorruption
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import GCSStore

from buckettestbed import RunningTestbed, launch_testbed

BUCKET = "data"
BIG = random.Random(5).randbytes(11 << 20)
CHANGING = {"date", "x-guploader-uploadid"}


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET]) as running:
        yield running


@pytest.fixture
def connection(testbed: RunningTestbed) -> Iterator[http.client.HTTPConnection]:
    opened = http.client.HTTPConnection(urlsplit(testbed.gcs_endpoint).netloc, timeout=30)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def store(testbed: RunningTestbed) -> GCSStore:
    return GCSStore(
        BUCKET,
        base_url=testbed.gcs_endpoint,
        bearer_token="any",  # With skip_signature alone obstore still asks the metadata server before it writes.
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def asked_both_ways(
    connection: http.client.HTTPConnection, path: str, **headers: str
) -> tuple[tuple[int, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]:
    """Returns a GET's answers, plain and ordinary, without what each answer has anew."""
    answers = []
    for extra in ({}, {"X_Unknown": "makes a request not plain"}):
        status, found, body = ask(connection, "GET", path, **headers, **extra)
        assert found.keys() >= CHANGING
        known = {name: value for name, value in found.items() if name not in CHANGING}
        answers.append((status, known, body))
    return answers[0], answers[1]


@pytest.mark.parametrize("size", [0, 300_000])
@pytest.mark.parametrize("asked", [None, "bytes=0-0", "bytes=-7", "bytes=100-299999", "bytes=9-3", "bytes=999999-"])
def test_both_ways_of_answering_a_get_give_the_same(
    connection: http.client.HTTPConnection, size: int, asked: str | None
) -> None:
    path = f"/{BUCKET}/same//{size}%20%2B"
    put = ask(connection, "PUT", path, BIG[:size], Content_Type="text/x", x_goog_meta_a="b", Cache_Control="no-store")
    assert put[0] == 200
    plain, ordinary = asked_both_ways(connection, path, **({} if asked is None else {"Range": asked}))
    assert plain == ordinary


SIGNED = "X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=a%2Fb&X-Goog-Date=1&X-Goog-Expires=9&X-Goog-Signature=0f"


@pytest.mark.parametrize("query", ["", SIGNED, "GoogleAccessId=a&Expires=1&Signature=b%3D", "generation={}"])
@pytest.mark.parametrize("held", [True, False])
def test_what_clients_add_to_a_get_is_answered_alike_both_ways(
    connection: http.client.HTTPConnection, query: str, held: bool
) -> None:
    path = f"/{BUCKET}/hello"
    generation = ask(connection, "PUT", path, b"hello")[1]["x-goog-generation"] if held else "5"
    etag = '"5d41402abc4b2a76b9719d911017c592"' if held else '"other"'
    address = f"{path}?{query.format(generation)}"
    for headers in ({}, {"x_goog_if_generation_match": generation}, {"If_Match": etag}):
        plain, ordinary = asked_both_ways(connection, address, **headers)
        assert plain == ordinary
        missing = not held and "generation=" in query
        assert plain[0] == (404 if missing else 412 if headers and not held else 200)


def test_a_plain_get_sees_every_change(connection: http.client.HTTPConnection) -> None:
    path = f"/{BUCKET}/changing"
    for body in (b"first", b"second, longer"):
        generation = ask(connection, "PUT", path, body)[1]["x-goog-generation"]
        status, headers, found = ask(connection, "GET", path)
        assert (status, headers["x-goog-generation"], found) == (200, generation, body)
    assert ask(connection, "DELETE", path)[0] == 204
    assert ask(connection, "GET", path)[0] == 404


def test_obstore_saves_loads_lists_and_deletes(store: GCSStore) -> None:
    saved = obstore.put(store, "o/small", b"hello")
    assert obstore.head(store, "o/small")["version"] == saved["version"]
    assert bytes(obstore.get(store, "o/small").bytes()) == b"hello"
    assert bytes(obstore.get_range(store, "o/small", start=1, end=3)) == b"el"
    assert [bytes(piece) for piece in obstore.get_ranges(store, "o/small", starts=[0, 3], ends=[2, 5])] == [
        b"he",
        b"lo",
    ]
    obstore.put(store, "o/d/big", io.BytesIO(BIG), chunk_size=5 << 20, use_multipart=True)
    assert bytes(obstore.get(store, "o/d/big").bytes()) == BIG
    assert [found["path"] for found in obstore.list(store, prefix="o").collect()] == ["o/d/big", "o/small"]
    assert obstore.list_with_delimiter(store, prefix="o")["common_prefixes"] == ["o/d"]
    obstore.copy(store, "o/d/big", "o/copy")
    obstore.rename(store, "o/small", "o/moved")
    assert bytes(obstore.get(store, "o/copy").bytes()) == BIG
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "o/small")
    obstore.delete(store, ["o/copy", "o/moved", "o/d/big"])
    assert obstore.list(store, prefix="o").collect() == []
    with pytest.raises(FileNotFoundError):
        obstore.delete(store, "o/copy")


def test_obstore_writes_on_conditions(store: GCSStore) -> None:
    first = obstore.put(store, "once", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "once", b"2", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.copy(store, "once", "once", overwrite=False)
    assert first["version"] is not None
    second = obstore.put(store, "once", b"2", mode={"e_tag": first["e_tag"], "version": first["version"]})
    assert second["version"] > first["version"]
    with pytest.raises(PreconditionError):
        obstore.put(store, "once", b"3", mode={"e_tag": first["e_tag"], "version": first["version"]})
    assert bytes(obstore.get(store, "once").bytes()) == b"2"


def test_the_transfer_manager_uploads_in_chunks(testbed: RunningTestbed, store: GCSStore, tmp_path: Path) -> None:
    client = storage.Client(
        project="any", credentials=AnonymousCredentials(), client_options={"api_endpoint": testbed.gcs_endpoint}
    )
    path = tmp_path / "big"
    path.write_bytes(BIG)
    blob = client.bucket(BUCKET).blob("chunks/x y+\u00e9")
    testbed.reset_counts()
    for checksum in ("crc32c", "md5"):
        transfer_manager.upload_chunks_concurrently(
            str(path), blob, chunk_size=5 << 20, max_workers=2, worker_type=transfer_manager.THREAD, checksum=checksum
        )
    counts = testbed.counts()
    assert counts["requests"] == {"create_upload": 2, "upload_part": 6, "complete_upload": 2}
    assert not counts["errors"]
    assert testbed.open_uploads() == []
    assert b"".join(bytes(piece) for piece in obstore.get(store, "chunks/x y+\u00e9").stream()) == BIG


def test_the_transfer_manager_sees_that_a_part_was_stored_wrong(testbed: RunningTestbed, tmp_path: Path) -> None:
    from google.cloud.storage._media.requests import XMLMPUPart

    path = tmp_path / "part"
    path.write_bytes(b"some bytes")
    session = storage.Client(
        project="any", credentials=AnonymousCredentials(), client_options={"api_endpoint": testbed.gcs_endpoint}
    )._http
    url = f"{testbed.gcs_endpoint}/{BUCKET}/refused"
    upload_id = re.search("<UploadId>(.*)</UploadId>", session.post(url + "?uploads").text)
    assert upload_id is not None
    wrong = {"x-goog-hash": "crc32c=AAAAAA=="}
    part = XMLMPUPart(url, upload_id[1], str(path), 0, 10, 1, headers=wrong, checksum=None, retry=None)
    with pytest.raises(DataCorruption, match="CrcMismatch"):
        part.upload(session)
    assert session.delete(f"{url}?uploadId={upload_id[1]}").status_code == 204
