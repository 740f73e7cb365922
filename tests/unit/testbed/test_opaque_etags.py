"""ETags that tell nothing of the bytes: what S3 then says, that hashes are checked all the same, and what is kept."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from asgi_driver import GCS_PORT, Driver

from buckettestbed.model.directory import DirectoryStorage

BODY = b"the same bytes"
MD5 = hashlib.md5(BODY).digest()
ENCRYPTION = "x-amz-server-side-encryption"


@pytest.fixture
def driver() -> Driver:
    return Driver(opaque_etags=True)


def resource(driver: Driver, key: str) -> dict[str, Any]:
    return json.loads(driver.ask("GET", f"/storage/v1/b/data/o/{key}", port=GCS_PORT).body)


def upload(driver: Driver, key: str, body: bytes = BODY) -> str:
    """Uploads one part and completes; returns the object's ETag."""
    upload_id = driver.ask("POST", f"/data/{key}", "uploads").xml.findtext("UploadId")
    etag = driver.ask("PUT", f"/data/{key}", f"uploadId={upload_id}&partNumber=1", body=body).headers["etag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>".encode()
    document = b"<CompleteMultipartUpload>" + part + b"</CompleteMultipartUpload>"
    done = driver.ask("POST", f"/data/{key}", f"uploadId={upload_id}", body=document)
    assert (done.status, done.headers[ENCRYPTION]) == (200, "aws:kms")
    assert driver.ask("POST", f"/data/{key}", f"uploadId={upload_id}", body=document).body == done.body
    return done.xml.findtext("ETag") or ""


def test_etags_look_like_md5s_and_are_none(driver: Driver) -> None:
    puts = [driver.put("key", BODY) for _ in range(2)]
    etags = [answer.headers["etag"] for answer in puts]
    assert all(re.fullmatch('"[0-9a-f]{32}"', etag) for etag in etags)
    assert len({*etags, f'"{MD5.hex()}"'}) == 3
    assert puts[0].headers[ENCRYPTION] == "aws:kms"
    for method in ("GET", "HEAD"):
        answer = driver.ask(method, "/data/key", headers={"if-match": etags[1]})
        assert (answer.status, answer.headers["etag"], answer.headers[ENCRYPTION]) == (200, etags[1], "aws:kms")
        assert driver.ask(method, "/data/key", headers={"if-match": etags[0]}).status == 412
    assert re.fullmatch('"[0-9a-f]{32}-1"', upload(driver, "parts"))
    assert driver.ask("GET", "/data/parts").body == BODY


def test_no_md5_is_computed_unless_one_was_stated(driver: Driver) -> None:
    async def digests(*algorithms: str) -> set[str]:
        incoming = driver.buckets.receive(*algorithms)
        incoming.write(BODY)
        return set((await incoming.finish()).digests)

    assert asyncio.run(digests()) == {"crc32c"}
    assert asyncio.run(digests("crc64nvme", "md5")) == {"crc32c", "crc64nvme", "md5"}


@pytest.mark.parametrize(("md5", "status"), [(MD5, 200), (bytes(16), 400)])
def test_an_md5_that_was_stated_is_checked(driver: Driver, md5: bytes, status: int) -> None:
    text = base64.b64encode(md5).decode()
    assert driver.ask("PUT", "/data/s3", headers={"content-md5": text}, body=BODY).status == status
    assert driver.ask("PUT", "/data/xml", headers={"content-md5": text}, body=BODY, port=GCS_PORT).status == status
    media = {"x-goog-hash": f"md5={text}"}
    path = "/upload/storage/v1/b/data/o"
    answer = driver.ask("POST", path, "uploadType=media&name=media", headers=media, body=BODY, port=GCS_PORT)
    assert answer.status == status
    opened = driver.ask("POST", path, "uploadType=resumable&name=session", body=b"{}", port=GCS_PORT)
    query = opened.headers["location"].partition("?")[2]
    assert driver.ask("PUT", path, query, headers=media, body=BODY, port=GCS_PORT).status == status
    stored = {"s3", "xml", "media", "session"} if status == 200 else set()
    assert set(driver.buckets.bucket("data").objects) == stored


def test_gcs_shows_no_md5(driver: Driver) -> None:
    driver.put("key", BODY)
    upload(driver, "parts")
    driver.ask("PUT", "/data/xml", body=BODY, port=GCS_PORT)
    for key in ("key", "parts", "xml"):
        assert "md5Hash" not in resource(driver, key)
        assert resource(driver, key)["crc32c"] == resource(driver, "key")["crc32c"]
        assert "md5" not in driver.ask("HEAD", f"/data/{key}", port=GCS_PORT).headers["x-goog-hash"]


def test_copies_are_opaque_too_and_one_part(driver: Driver) -> None:
    upload(driver, "source")
    driver.ask("PUT", "/data/s3", headers={"x-amz-copy-source": "/data/source"})
    driver.ask("PUT", "/data/xml", headers={"x-goog-copy-source": "/data/source"}, port=GCS_PORT)
    driver.ask("POST", "/storage/v1/b/data/o/source/copyTo/b/data/o/json", body=b"{}", port=GCS_PORT)
    for key in ("s3", "xml", "json"):
        answer = driver.ask("GET", f"/data/{key}")
        assert (answer.body, answer.headers[ENCRYPTION]) == (BODY, "aws:kms")
        assert "md5Hash" not in resource(driver, key)
    assert "-" not in driver.ask("HEAD", "/data/s3").headers["etag"]


def test_an_object_stays_what_it_was_written_as(tmp_path: Path) -> None:
    opaque = Driver(DirectoryStorage(tmp_path), opaque_etags=True)
    etag = opaque.put("opaque", BODY).headers["etag"]
    opaque.buckets.storage.close()
    plain = Driver(DirectoryStorage(tmp_path))
    headers = plain.ask("HEAD", "/data/opaque").headers
    assert (headers["etag"], headers[ENCRYPTION]) == (etag, "aws:kms")
    plain.put("plain", BODY)
    plain.ask("PUT", "/data/copy", headers={"x-amz-copy-source": "/data/opaque"})
    plain.ask("PUT", "/data/gcs", headers={"x-goog-copy-source": "/data/opaque"}, port=GCS_PORT)
    assert "md5Hash" not in resource(plain, "opaque")
    assert "md5Hash" not in resource(plain, "gcs")
    for key in ("plain", "copy"):
        assert plain.ask("HEAD", f"/data/{key}").headers["etag"] == f'"{MD5.hex()}"'
        assert resource(plain, key)["md5Hash"] == base64.b64encode(MD5).decode()
