"""S3's rules for multipart uploads, asked of the application in memory."""

from __future__ import annotations

import base64
import hashlib
import zlib

import pytest
from asgi_driver import Answer, Driver

MINIMUM = 5 << 20
BIG = b"x" * MINIMUM


@pytest.fixture
def driver() -> Driver:
    return Driver()


def create(driver: Driver, key: str = "key", **headers: str) -> str:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return driver.ask("POST", f"/data/{key}", "uploads", headers=sent).xml.findtext("UploadId") or ""


def part(driver: Driver, upload: str, number: int, body: bytes, key: str = "key", **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return driver.ask("PUT", f"/data/{key}", f"partNumber={number}&uploadId={upload}", headers=sent, body=body)


def complete(
    driver: Driver,
    upload: str,
    parts: list[tuple[int, str]],
    key: str = "key",
    checksums: tuple[str, list[str]] = ("", []),
    **headers: str,
) -> Answer:
    name, values = checksums
    stated = [f"<Checksum{name}>{value}</Checksum{name}>" for value in values] or [""] * len(parts)
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{checksum}</Part>"
        for (number, etag), checksum in zip(parts, stated, strict=True)
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return driver.ask("POST", f"/data/{key}", f"uploadId={upload}", headers=sent, body=body)


def etag_of(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def test_an_upload_from_create_to_complete(driver: Driver) -> None:
    upload = create(driver, content_type="t/a", x_amz_meta_a="1")
    last = b"last"
    for number, body in ((7, last), (2, BIG), (2, BIG)):  # In any order, with gaps, and one again.
        assert part(driver, upload, number, body).headers["etag"] == etag_of(body)
    listed = driver.ask("GET", "/data/key", f"uploadId={upload}&max-parts=1").xml
    assert (listed.findtext("Part/PartNumber"), listed.findtext("IsTruncated")) == ("2", "true")
    assert driver.ask("HEAD", "/data/key").status == 404
    assert driver.ask("GET", "/data", "uploads").xml.findtext("Upload/UploadId") == upload
    answer = complete(driver, upload, [(2, etag_of(BIG)), (7, etag_of(last))])
    digests = hashlib.md5(BIG).digest() + hashlib.md5(last).digest()
    assert answer.xml.findtext("ETag") == f'"{hashlib.md5(digests).hexdigest()}-2"'
    whole = driver.ask("GET", "/data/key")
    assert whole.body == BIG + last
    assert (whole.headers["content-type"], whole.headers["x-amz-meta-a"]) == ("t/a", "1")
    second = driver.ask("GET", "/data/key", "partNumber=2")
    assert (second.status, second.body, second.headers["x-amz-mp-parts-count"]) == (206, last, "2")
    assert driver.ask("GET", "/data/key", "partNumber=3").status == 416
    across = driver.ask("GET", "/data/key", headers={"range": f"bytes={MINIMUM - 2}-{MINIMUM + 1}"})
    assert across.body == b"xxla"
    assert part(driver, upload, 1, b"late").code == "NoSuchUpload"
    assert driver.ask("GET", "/data", "uploads").xml.find("Upload") is None


def test_completions_that_are_refused_leave_the_upload_open(driver: Driver) -> None:
    upload = create(driver)
    for number, body in ((1, BIG), (2, b"small"), (3, b"small")):
        part(driver, upload, number, body)
    one, two = (1, etag_of(BIG)), (2, etag_of(b"small"))
    for parts, code in [
        ([two, one], "InvalidPartOrder"),
        ([one, one], "InvalidPartOrder"),
        ([one, (9, etag_of(b""))], "InvalidPart"),
        ([(1, etag_of(b"other"))], "InvalidPart"),
        ([one, two, (3, etag_of(b"small"))], "EntityTooSmall"),
        ([], "MalformedXML"),
    ]:
        assert complete(driver, upload, parts).code == code, parts
    assert complete(driver, upload, [one, two], key="other").code == "NoSuchUpload"
    driver.put("key", b"there")
    assert complete(driver, upload, [one, two], if_none_match="*").status == 412
    assert driver.ask("GET", "/data/key").body == b"there"
    assert complete(driver, upload, [one, two], if_match=etag_of(b"there")).status == 200
    assert driver.ask("HEAD", "/data/key").headers["content-length"] == str(MINIMUM + 5)


def test_abort_frees_the_parts(driver: Driver) -> None:
    upload = create(driver)
    part(driver, upload, 1, b"x")
    assert driver.ask("DELETE", "/data/key", f"uploadId={upload}").status == 204
    assert driver.ask("DELETE", "/data/key", f"uploadId={upload}").code == "NoSuchUpload"
    assert driver.ask("GET", "/_testbed/uploads").body == b"[]"


@pytest.mark.parametrize("number", ["0", "10001", "-1", "x", ""])
def test_part_numbers_have_their_range(driver: Driver, number: str) -> None:
    upload = create(driver)
    assert driver.ask("PUT", "/data/key", f"partNumber={number}&uploadId={upload}", body=b"x").code == "InvalidArgument"


def test_the_checksum_of_the_parts(driver: Driver) -> None:
    upload = create(driver, x_amz_checksum_algorithm="CRC32")
    sums = []
    for number, body in ((1, BIG), (2, b"last")):
        digest = zlib.crc32(body).to_bytes(4, "big")
        sums.append(digest)
        part(driver, upload, number, body, x_amz_checksum_crc32=base64.b64encode(digest).decode())
    listed = [(1, etag_of(BIG)), (2, etag_of(b"last"))]
    assert complete(driver, upload, listed).code == "InvalidRequest"
    stated = [base64.b64encode(digest).decode() for digest in sums]
    assert complete(driver, upload, listed, checksums=("CRC32", [stated[0], stated[0]])).code == "InvalidPart"
    answer = complete(driver, upload, listed, checksums=("CRC32", stated))
    wanted = base64.b64encode(zlib.crc32(b"".join(sums)).to_bytes(4, "big")).decode() + "-2"
    assert answer.xml.findtext("ChecksumCRC32") == wanted
    head = driver.ask("HEAD", "/data/key", headers={"x-amz-checksum-mode": "ENABLED"})
    assert (head.headers["x-amz-checksum-crc32"], head.headers["x-amz-checksum-type"]) == (wanted, "COMPOSITE")


def test_crc32c_of_parts_is_the_standard_one() -> None:
    from bucketbench.testbed.s3.checksums import composite

    nine = base64.b64encode(b"1234").decode(), base64.b64encode(b"56789").decode()
    assert composite("crc32c", nine) == base64.b64encode((0xE3069283).to_bytes(4, "big")).decode() + "-2"


def test_parts_by_copy(driver: Driver) -> None:
    driver.put("from", BIG + b"tail")
    upload = create(driver)
    query = f"uploadId={upload}&partNumber="
    source = {"x-amz-copy-source": "data/from"}
    first = driver.ask("PUT", "/data/key", query + "1", headers=source).xml.findtext("ETag") or ""
    ranged = {**source, "x-amz-copy-source-range": f"bytes={MINIMUM}-{MINIMUM + 3}"}
    second = driver.ask("PUT", "/data/key", query + "2", headers=ranged).xml.findtext("ETag") or ""
    assert (first, second) == (etag_of(BIG + b"tail"), etag_of(b"tail"))
    beyond = {**source, "x-amz-copy-source-range": f"bytes=0-{MINIMUM + 4}"}
    assert driver.ask("PUT", "/data/key", query + "3", headers=beyond).code == "InvalidArgument"
    assert complete(driver, upload, [(1, first), (2, second)]).status == 200
    assert driver.ask("GET", "/data/key").body == BIG + b"tailtail"
    driver.ask("PUT", "/data/copy", headers={"x-amz-copy-source": "data/key"})
    assert driver.ask("HEAD", "/data/copy").headers["etag"] == etag_of(BIG + b"tailtail")


def test_uploads_are_listed_by_pages(driver: Driver) -> None:
    created = {create(driver, key): key for key in ("a", "b", "b", "c")}
    seen, marker = [], ""
    while True:
        page = driver.ask("GET", "/data", f"uploads&max-uploads=1{marker}").xml
        seen.append((page.findtext("Upload/Key"), page.findtext("Upload/UploadId")))
        if page.findtext("IsTruncated") == "false":
            break
        marker = f"&key-marker={page.findtext('NextKeyMarker')}&upload-id-marker={page.findtext('NextUploadIdMarker')}"
    assert [key for key, _ in seen] == ["a", "b", "b", "c"]
    assert {upload for _, upload in seen} == set(created)


def test_a_bucket_goes_with_its_open_uploads(driver: Driver) -> None:
    create(driver)
    assert driver.ask("DELETE", "/data").status == 204
