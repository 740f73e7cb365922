"""S3's rules for multipart uploads, asked of the application in memory."""

from __future__ import annotations

import base64
import hashlib
import zlib

import pytest
from asgi_driver import GCS_PORT, S3_PORT, Answer, Driver
from awscrt import checksums as awscrt_checksums

from buckettestbed.command import main
from buckettestbed.network.model import NetworkModel
from buckettestbed.s3.service import S3Service
from buckettestbed.serving.application import Application

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
    none = driver.ask("GET", "/data/key", f"uploadId={upload}&max-parts=0").xml
    assert (none.find("Part"), none.findtext("IsTruncated")) == (None, "false")  # Else a client would ask for ever.
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
    assert driver.ask_admin("GET", "uploads").body == b"[]"


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
    from buckettestbed.s3.checksums import composite

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


def test_uploads_are_rolled_up_by_a_delimiter(driver: Driver) -> None:
    for key in ("a/1", "a/2", "b", "c/1"):
        create(driver, key)
    first = driver.ask("GET", "/data", "uploads&delimiter=/&max-uploads=1").xml
    assert [found.text for found in first.findall("CommonPrefixes/Prefix")] == ["a/"]
    assert (first.findtext("NextKeyMarker"), first.findtext("IsTruncated")) == ("a/", "true")
    rest = driver.ask("GET", "/data", "uploads&delimiter=/&key-marker=a/").xml
    assert [found.text for found in rest.findall("Upload/Key")] == ["b"]
    assert [found.text for found in rest.findall("CommonPrefixes/Prefix")] == ["c/"]
    assert driver.ask("GET", "/data", "uploads&max-uploads=0").xml.findtext("IsTruncated") == "false"


CRCS = {"crc32": (zlib.crc32, 4), "crc32c": (awscrt_checksums.crc32c, 4), "crc64nvme": (awscrt_checksums.crc64nvme, 8)}


def crc_of(algorithm: str, body: bytes) -> str:
    compute, length_bytes = CRCS[algorithm]
    return base64.b64encode(compute(body).to_bytes(length_bytes, "big")).decode()


@pytest.mark.parametrize("algorithm", CRCS)
def test_the_checksum_of_the_full_object_is_made_of_the_parts(driver: Driver, algorithm: str) -> None:
    upload = create(driver, x_amz_checksum_algorithm=algorithm.upper(), x_amz_checksum_type="FULL_OBJECT")
    stated = {"x-amz-checksum-" + algorithm: crc_of(algorithm, BIG)}
    query = f"partNumber=1&uploadId={upload}"
    assert driver.ask("PUT", "/data/key", query, headers=stated, body=BIG).status == 200
    part(driver, upload, 2, b"last")  # Without one: S3 computes it.
    listed = [(1, etag_of(BIG)), (2, etag_of(b"last"))]
    name = f"x_amz_checksum_{algorithm}"
    assert complete(driver, upload, listed, **{name: crc_of(algorithm, b"other")}).code == "BadDigest"
    wrong_kind = complete(driver, upload, listed, x_amz_checksum_type="COMPOSITE")
    assert wrong_kind.code == "InvalidRequest"
    whole = crc_of(algorithm, BIG + b"last")
    answer = complete(driver, upload, listed, **{name: whole})
    assert answer.xml.findtext(f"Checksum{algorithm.upper()}") == whole
    head = driver.ask("HEAD", "/data/key", headers={"x-amz-checksum-mode": "ENABLED"}).headers
    assert (head["x-amz-checksum-" + algorithm], head["x-amz-checksum-type"]) == (whole, "FULL_OBJECT")


def test_an_upload_of_which_nobody_states_a_checksum_has_the_usual_one(driver: Driver) -> None:
    upload = create(driver)
    part(driver, upload, 1, BIG, x_amz_checksum_crc32=crc_of("crc32", BIG))
    part(driver, upload, 2, b"last")
    assert complete(driver, upload, [(1, etag_of(BIG)), (2, etag_of(b"last"))]).status == 200
    head = driver.ask("HEAD", "/data/key", headers={"x-amz-checksum-mode": "ENABLED"}).headers
    assert head["x-amz-checksum-crc64nvme"] == crc_of("crc64nvme", BIG + b"last")


@pytest.mark.parametrize(
    ("algorithm", "kind"), [("CRC64NVME", "COMPOSITE"), ("SHA256", "FULL_OBJECT"), ("CRC32", "HALF"), ("MD5", "")]
)
def test_checksums_that_uploads_cannot_have(driver: Driver, algorithm: str, kind: str) -> None:
    headers = {"x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": kind}
    assert driver.ask("POST", "/data/key", "uploads", headers=headers).code == "InvalidRequest"


def test_a_part_with_another_checksum_than_the_uploads_is_refused(driver: Driver) -> None:
    upload = create(driver, x_amz_checksum_algorithm="CRC32C")
    assert part(driver, upload, 1, b"x", x_amz_checksum_crc32=crc_of("crc32", b"x")).code == "InvalidRequest"
    assert driver.buckets.bucket("data").uploads[upload].parts == {}


def test_a_completion_can_be_repeated_but_not_changed(driver: Driver) -> None:
    upload = create(driver)
    part(driver, upload, 1, b"only")
    first = complete(driver, upload, [(1, etag_of(b"only"))])
    again = complete(driver, upload, [(1, etag_of(b"only"))])
    assert (again.status, again.body) == (200, first.body)
    assert complete(driver, upload, [(2, etag_of(b"only"))]).code == "NoSuchUpload"
    assert complete(driver, upload, [(1, etag_of(b"only"))], key="other").code == "NoSuchUpload"


def test_a_completion_that_states_another_size_is_refused(driver: Driver) -> None:
    upload = create(driver)
    part(driver, upload, 1, b"only")
    assert complete(driver, upload, [(1, etag_of(b"only"))], x_amz_mp_object_size="5").code == "InvalidRequest"
    assert complete(driver, upload, [(1, etag_of(b"only"))], x_amz_mp_object_size="4").status == 200


def test_an_upload_keeps_its_storage_class(driver: Driver) -> None:
    upload = create(driver, x_amz_storage_class="GLACIER_IR")
    part(driver, upload, 1, b"only")
    for query, name in [("uploads", "Upload/StorageClass"), ("", "Contents/StorageClass")]:
        if not query:
            complete(driver, upload, [(1, etag_of(b"only"))])
        assert driver.ask("GET", "/data", query).xml.findtext(name) == "GLACIER_IR"


def test_the_least_size_of_a_part_can_be_lowered() -> None:
    driver = Driver()
    service = S3Service(driver.buckets, base_hosts=(), minimum_part_bytes=2)
    driver.application = Application(driver.buckets, dialects={S3_PORT: service}, network=NetworkModel())
    upload = create(driver)
    for number, body in ((1, b"ab"), (2, b"c"), (3, b"d")):
        part(driver, upload, number, body)
    listed = [(1, etag_of(b"ab")), (2, etag_of(b"c")), (3, etag_of(b"d"))]
    assert complete(driver, upload, listed).xml.findtext("MinSizeAllowed") == "2"
    assert complete(driver, upload, listed[:2]).status == 200


@pytest.mark.parametrize("size", ["-1", str(MINIMUM + 1), "few"])
def test_a_least_size_that_is_none_is_refused_at_the_start(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--minimum-part-bytes", size]) == 2
    assert "--minimum-part-bytes" in capsys.readouterr().err


def test_a_completion_is_repeated_by_its_parts_however_it_is_spelled(driver: Driver) -> None:
    upload = create(driver)
    for number, body in ((1, BIG), (2, b"last")):
        part(driver, upload, number, body)
    first = complete(driver, upload, [(1, etag_of(BIG)), (2, etag_of(b"last"))])
    spelled = "".join(
        f"\n  <Part><ETag>&quot;{hashlib.md5(body).hexdigest()}&quot;</ETag><PartNumber>{number}</PartNumber></Part>"
        for number, body in ((1, BIG), (2, b"last"))
    )
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    document = f'<CompleteMultipartUpload xmlns="{namespace}">{spelled}\n</CompleteMultipartUpload>'.encode()
    again = driver.ask("POST", "/data/key", f"uploadId={upload}", body=document)
    assert (again.status, again.body) == (200, first.body)
    assert complete(driver, upload, [(1, etag_of(BIG))]).code == "NoSuchUpload"


@pytest.mark.parametrize(("algorithm", "kind"), [("CRC32", "COMPOSITE"), ("CRC64NVME", "FULL_OBJECT")])
def test_the_parts_of_an_object_keep_their_checksums(driver: Driver, algorithm: str, kind: str) -> None:
    header, name = f"x-amz-checksum-{algorithm.lower()}", f"Checksum{algorithm}"
    upload = create(driver, x_amz_checksum_algorithm=algorithm, x_amz_checksum_type=kind)
    bodies = {2: BIG, 5: BIG + b"x", 7: b"last"}
    sums = [crc_of(algorithm.lower(), body) for body in bodies.values()]
    for number, body in bodies.items():
        part(driver, upload, number, body)
    stated = (algorithm, sums) if kind == "COMPOSITE" else ("", [])
    listed = [(number, etag_of(body)) for number, body in bodies.items()]
    assert complete(driver, upload, listed, checksums=stated).status == 200

    for number, body in enumerate(bodies.values(), start=1):
        got = driver.ask("GET", "/data/key", f"partNumber={number}", headers={"x-amz-checksum-mode": "ENABLED"})
        assert (got.body, got.headers[header], got.headers["x-amz-checksum-type"]) == (body, sums[number - 1], kind)
    assert header not in driver.ask("HEAD", "/data/key", "partNumber=1").headers

    asked = {"x-amz-object-attributes": "ObjectParts"}
    parts = driver.ask("GET", "/data/key", "attributes", headers=asked).xml.find("ObjectParts")
    assert parts is not None
    assert (parts.findtext("PartsCount"), parts.findtext("IsTruncated")) == ("3", "false")
    assert [
        (found.findtext("PartNumber"), found.findtext("Size"), found.findtext(name)) for found in parts.findall("Part")
    ] == [(str(at), str(len(body)), sums[at - 1]) for at, body in enumerate(bodies.values(), start=1)]
    page = {**asked, "x-amz-max-parts": "1", "x-amz-part-number-marker": "1"}
    second = driver.ask("GET", "/data/key", "attributes", headers=page).xml.find("ObjectParts")
    assert second is not None
    assert [found.findtext("PartNumber") for found in second.findall("Part")] == ["2"]
    assert (second.findtext("PartNumberMarker"), second.findtext("NextPartNumberMarker")) == ("1", "2")
    assert (second.findtext("MaxParts"), second.findtext("IsTruncated")) == ("1", "true")
    wrong = driver.ask("GET", "/data/key", "attributes", headers={**asked, "x-amz-max-parts": "x"})
    assert wrong.code == "InvalidArgument"


def test_an_upload_without_checksums_has_parts_without(driver: Driver) -> None:
    upload = create(driver)
    part(driver, upload, 1, b"only")
    complete(driver, upload, [(1, etag_of(b"only"))])
    asked = {"x-amz-object-attributes": "ObjectParts"}
    parts = driver.ask("GET", "/data/key", "attributes", headers=asked).xml.find("ObjectParts")
    assert parts is not None
    assert [found.tag for found in parts] == ["PartsCount"]  # As S3 does it where no checksum was asked for.
    got = driver.ask("GET", "/data/key", "partNumber=1", headers={"x-amz-checksum-mode": "ENABLED"})
    assert (got.status, [name for name in got.headers if "checksum" in name]) == (206, [])


def test_a_part_that_came_by_another_api_has_no_checksum_to_make_one_of(driver: Driver) -> None:
    upload = create(driver, x_amz_checksum_algorithm="CRC32")
    driver.ask("PUT", "/data/key", f"partNumber=1&uploadId={upload}", body=b"only", port=GCS_PORT)
    stated = ("CRC32", [crc_of("crc32", b"only")])
    refused = complete(driver, upload, [(1, etag_of(b"only"))], checksums=stated)
    assert refused.code in ("InvalidPart", "InvalidRequest")
    over_gcs = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag_of(b'only')}</ETag></Part>"
    document = (over_gcs + "</CompleteMultipartUpload>").encode()
    assert driver.ask("POST", "/data/key", f"uploadId={upload}", body=document, port=GCS_PORT).status == 200
