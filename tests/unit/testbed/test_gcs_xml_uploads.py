"""Multipart uploads of GCS's XML API, asked of the application in memory."""

from __future__ import annotations

import hashlib

import pytest
from asgi_driver import Answer
from gcs_xml_kit import XmlDriver, crc32c_of, md5_of

MINIMUM = 5 << 20
BIG, LAST = b"x" * MINIMUM, b"last"


@pytest.fixture
def driver() -> XmlDriver:
    return XmlDriver()


def create(driver: XmlDriver, key: str = "key", **headers: str) -> str:
    return driver.xml("POST", f"/data/{key}", "uploads", **headers).xml.findtext("UploadId") or ""


def part(driver: XmlDriver, upload: str, number: int, body: bytes, **headers: str) -> Answer:
    return driver.xml("PUT", "/data/key", f"partNumber={number}&uploadId={upload}", body=body, **headers)


def complete(driver: XmlDriver, upload: str, parts: list[tuple[int, bytes]], **headers: str) -> Answer:
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{hashlib.md5(body).hexdigest()}</ETag></Part>"
        for number, body in parts
    )
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return driver.xml("POST", "/data/key", f"uploadId={upload}", body=document, **headers)


def test_an_upload_from_create_to_complete(driver: XmlDriver) -> None:
    upload = create(driver, content_type="t/a", x_goog_meta_a="1", x_goog_storage_class="NEARLINE")
    for number, body in ((7, LAST), (2, BIG)):
        answer = part(driver, upload, number, body, x_goog_hash=f"crc32c={crc32c_of(body)}")
        assert answer.headers["etag"] == f'"{hashlib.md5(body).hexdigest()}"'
        assert answer.headers["x-goog-hash"] == f"crc32c={crc32c_of(body)},md5={md5_of(body)}"
    listed = driver.xml("GET", "/data/key", f"uploadId={upload}&max-parts=1").xml
    assert (listed.findtext("Part/PartNumber"), listed.findtext("Part/Size")) == ("2", str(MINIMUM))
    assert (listed.findtext("IsTruncated"), listed.findtext("StorageClass")) == ("true", "NEARLINE")
    assert driver.xml("GET", "/data", "uploads").xml.findtext("Upload/UploadId") == upload
    assert driver.xml("HEAD", "/data/key").status == 404
    answer = complete(driver, upload, [(2, BIG), (7, LAST)])
    digests = hashlib.md5(BIG).digest() + hashlib.md5(LAST).digest()
    etag = f'"{hashlib.md5(digests).hexdigest()}-2"'
    assert answer.xml.findtext("ETag") == etag
    whole = driver.xml("GET", "/data/key")
    assert whole.body == BIG + LAST
    assert whole.headers["x-goog-hash"] == f"crc32c={crc32c_of(BIG + LAST)}"  # Nobody knows the MD5 of the whole.
    assert whole.headers["x-goog-generation"] == answer.headers["x-goog-generation"]
    assert (whole.headers["content-type"], whole.headers["x-goog-meta-a"]) == ("t/a", "1")
    over_s3 = driver.ask("GET", "/data/key", "partNumber=2")
    assert (over_s3.body, over_s3.headers["etag"]) == (LAST, etag)
    assert driver.xml("GET", "/data", "uploads").xml.find("Upload") is None


def test_uploads_that_are_refused_leave_nothing_behind(driver: XmlDriver) -> None:
    upload = create(driver)
    for number, body in ((1, BIG), (2, LAST), (3, LAST)):
        part(driver, upload, number, body)
    wrong = f"crc32c={crc32c_of(b'')}"
    assert part(driver, upload, 4, LAST, x_goog_hash=wrong).code == "CrcMismatch"
    assert part(driver, upload, 10_001, LAST).code == "InvalidArgument"
    assert part(driver, upload, 4, LAST, x_goog_copy_source="data/key").code == "NotImplemented"
    good = [(1, BIG), (2, LAST)]
    for parts, headers, code in [
        ([(2, LAST), (1, BIG)], {}, "InvalidPartOrder"),
        ([(1, LAST)], {}, "InvalidPart"),
        ([(4, LAST)], {}, "InvalidPart"),
        ([*good, (3, LAST)], {}, "EntityTooSmall"),
        ([], {}, "MalformedXML"),
        (good, {"x_goog_hash": wrong}, "CrcMismatch"),
    ]:
        answer = complete(driver, upload, parts, **headers)
        assert answer.code == code, (code, answer.body)
        assert answer.xml.findtext("Details")
    assert driver.xml("HEAD", "/data/key").status == 404
    stated = f"crc32c={crc32c_of(BIG + LAST)}"
    assert complete(driver, upload, good, x_goog_hash=stated, x_goog_if_generation_match="5").status == 200  # ignored
    assert complete(driver, upload, good).code == "NoSuchUpload"


def test_abort_frees_the_parts(driver: XmlDriver) -> None:
    upload = create(driver)
    part(driver, upload, 1, b"x")
    assert driver.xml("DELETE", "/data/key", f"uploadId={upload}").status == 204
    assert driver.xml("DELETE", "/data/key", f"uploadId={upload}").code == "NoSuchUpload"
    assert not driver.buckets.bucket("data").uploads
