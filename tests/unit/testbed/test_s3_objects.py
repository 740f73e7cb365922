"""S3's rules for objects and buckets, asked of the application in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

import google_crc32c
import pytest
from asgi_driver import GCS_PORT, S3_PORT, Driver
from awscrt import checksums
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.model.buckets import Buckets
from buckettestbed.model.directory import DirectoryStorage
from buckettestbed.model.memory import MemoryContent, MemoryIncoming
from buckettestbed.model.objects import Attributes

ODD_KEYS = [
    "a//b",
    "./x",
    "../x",
    "a/../../b",
    "d/",
    "/",
    "//",
    "+",
    "a b",
    "%2F",
    "%",
    "é\U0001f600",
    "?",
    "#",
    "\x01\r\n",
    "x" * 1024,
]


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_are_byte_exact(driver: Driver, key: str) -> None:
    driver.put(key, key.encode())
    assert driver.ask("GET", f"/data/{quote(key)}").body == key.encode()
    assert driver.ask("GET", "/" + quote(key), headers={"host": "data.localhost:9000"}).body == key.encode()
    listed = driver.ask("GET", "/data", "list-type=2&encoding-type=url").xml.findtext("Contents/Key")
    assert listed == quote(key, safe="/")
    assert driver.ask("DELETE", f"/data/{quote(key)}").status == 204
    assert driver.ask("HEAD", f"/data/{quote(key)}").status == 404


@given(key=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_text_is_a_key(key: str) -> None:
    driver = Driver()
    driver.put(key, b"1")
    assert driver.ask("GET", f"/data/{quote(key, safe='')}").body == b"1"


def test_keys_that_are_none(driver: Driver) -> None:
    long = driver.ask("PUT", "/data/" + "é" * 513, body=b"1")
    assert (long.status, long.code, long.xml.findtext("Size")) == (400, "KeyTooLongError", "1026")
    assert driver.ask("GET", "/data/%ff").code == "InvalidURI"


def test_errors_have_the_providers_codes(driver: Driver) -> None:
    driver.put("here")
    for method, path, query, status, code in [
        ("GET", "/data/none", "", 404, "NoSuchKey"),
        ("GET", "/none/key", "", 404, "NoSuchBucket"),
        ("GET", "/none", "list-type=2", 404, "NoSuchBucket"),
        ("PUT", "/none/key", "", 404, "NoSuchBucket"),
        ("DELETE", "/data", "", 409, "BucketNotEmpty"),
        ("PUT", "/data", "", 409, "BucketAlreadyOwnedByYou"),
        ("PUT", "/No_Bucket", "", 400, "InvalidBucketName"),
        ("PUT", "/_testbed", "", 400, "InvalidBucketName"),
        ("GET", "/data/here", "tagging", 501, "NotImplemented"),
        ("GET", "/data", "policy", 501, "NotImplemented"),
        ("PATCH", "/data/here", "", 405, "MethodNotAllowed"),
        ("GET", "/data", "max-keys=-1", 400, "InvalidArgument"),
        ("GET", "/data", "list-type=2&continuation-token=%21", 400, "InvalidArgument"),
        ("GET", "/data", "encoding-type=base64", 400, "InvalidArgument"),
    ]:
        answer = driver.ask(method, path, query)
        assert (answer.status, answer.code) == (status, code), (method, path, query)
        assert answer.xml.findtext("RequestId") == answer.headers["x-amz-request-id"]
    head = driver.ask("HEAD", "/data/none")
    assert (head.status, head.body, head.headers["content-length"]) == (404, b"", "0")


def test_attributes_are_kept_and_returned(driver: Driver) -> None:
    sent = {
        "content-type": "text/x-test",
        "cache-control": "no-store",
        "content-encoding": "gzip",
        "content-disposition": "inline",
        "x-amz-meta-colour": "bl\xe4u",
    }
    driver.ask("PUT", "/data/key", headers=sent, body=b"1")
    for method in ("GET", "HEAD"):
        answer = driver.ask(method, "/data/key")
        assert sent.items() <= answer.headers.items()
        assert answer.headers["content-length"] == "1"
        assert answer.headers["etag"] == f'"{hashlib.md5(b"1").hexdigest()}"'
    overridden = driver.ask("GET", "/data/key", "response-content-type=a/b&response-cache-control=x")
    assert (overridden.headers["content-type"], overridden.headers["cache-control"]) == ("a/b", "x")
    assert driver.ask("GET", "/data/key", "response-content-type=a%0Ab").code == "InvalidArgument"
    assert driver.ask("PUT", "/data/key", headers={"x-amz-meta-a": "b" * 2048}).code == "MetadataTooLarge"


def test_ranges(driver: Driver) -> None:
    driver.put("ten", b"0123456789")
    part = driver.ask("GET", "/data/ten", headers={"range": "bytes=2-4"})
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    whole = driver.ask("GET", "/data/ten", headers={"range": "bytes=0-9"})
    assert (whole.status, whole.headers["content-range"]) == (206, "bytes 0-9/10")
    beyond = driver.ask("GET", "/data/ten", headers={"range": "bytes=10-"})
    assert (beyond.status, beyond.code, beyond.headers["content-range"]) == (416, "InvalidRange", "bytes */10")
    head = driver.ask("HEAD", "/data/ten", headers={"range": "bytes=-4"})
    assert (head.status, head.headers["content-length"], head.body) == (206, "4", b"")
    etag = driver.ask("HEAD", "/data/ten").headers["etag"]
    for condition, status in [
        (etag, 206),
        ('"other"', 200),
        (formatdate(usegmt=True), 206),
        (formatdate(0, usegmt=True), 200),
    ]:
        assert driver.ask("GET", "/data/ten", headers={"range": "bytes=0-0", "if-range": condition}).status == status


def test_conditional_reads(driver: Driver) -> None:
    driver.put("key", b"1")
    etag = driver.ask("HEAD", "/data/key").headers["etag"]
    future, past = formatdate(4e9, usegmt=True), formatdate(0, usegmt=True)
    for headers, status in [
        ({"if-match": etag}, 200),
        ({"if-match": f'"x", {etag}'}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"x"'}, 412),
        ({"if-none-match": etag}, 304),
        ({"if-none-match": '"x"'}, 200),
        ({"if-modified-since": future}, 304),
        ({"if-modified-since": past}, 200),
        ({"if-modified-since": "no date"}, 200),
        ({"if-modified-since": f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"}, 200),
        ({"if-unmodified-since": f"Mon, 01 Jan 2020 00:00:00 +{'9' * 14}"}, 200),
        ({"if-unmodified-since": past}, 412),
        ({"if-unmodified-since": future}, 200),
        ({"if-match": etag, "if-unmodified-since": past}, 200),
        ({"if-none-match": '"x"', "if-modified-since": future}, 200),
    ]:
        for method in ("GET", "HEAD"):
            answer = driver.ask(method, "/data/key", headers=headers)
            assert answer.status == status, headers
            if status == 304:
                assert answer.headers["etag"] == etag
                assert answer.body == b""


def test_conditional_writes(driver: Driver) -> None:
    def put(body: bytes, **headers: str) -> int:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return driver.ask("PUT", "/data/key", headers=sent, body=body).status

    assert put(b"0", if_match='"x"') == 404
    assert put(b"1", if_none_match="*") == 200
    assert put(b"2", if_none_match="*") == 412
    assert put(b"3", if_match='"x"') == 412
    assert driver.ask("GET", "/data/key").body == b"1"
    assert put(b"4", if_match=hashlib.md5(b"1").hexdigest()) == 200
    assert put(b"5", if_none_match='"x"') == 501
    assert driver.ask("GET", "/data/key").body == b"4"


class OvertakenIncoming(MemoryIncoming):
    """A body during whose arrival someone else writes the same key."""

    def __init__(self, buckets: Buckets) -> None:
        super().__init__(["crc32c", "crc64nvme", "md5"])
        self._buckets = buckets

    def write(self, chunk: bytes) -> None:
        bucket = self._buckets.bucket("data")
        self._buckets.put(bucket, "key", content=MemoryContent([b"other"]), etag="x", attributes=Attributes())
        super().write(chunk)


def test_a_condition_holds_at_the_end_of_an_upload_not_only_at_its_start(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver.buckets.storage, "receive", lambda algorithms: OvertakenIncoming(driver.buckets))
    answer = driver.ask("PUT", "/data/key", headers={"if-none-match": "*"}, body=b"too late")
    assert answer.status == 412
    assert driver.ask("GET", "/data/key").body == b"other"


def test_digests_are_verified(driver: Driver) -> None:
    body = b"some bytes"
    good = {
        "content-md5": base64.b64encode(hashlib.md5(body).digest()).decode(),
        "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
        "x-amz-checksum-crc32c": base64.b64encode(google_crc32c.Checksum(body).digest()).decode(),
        "x-amz-checksum-crc64nvme": base64.b64encode(checksums.crc64nvme(body).to_bytes(8, "big")).decode(),
        "x-amz-checksum-sha1": base64.b64encode(hashlib.sha1(body).digest()).decode(),
        "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(body).digest()).decode(),
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
    }
    for name, value in good.items():
        assert driver.ask("PUT", "/data/key", headers={name: value}, body=body).status == 200, name
        wrong = driver.ask("PUT", "/data/wrong", headers={name: value}, body=b"other bytes")
        code = "XAmzContentSHA256Mismatch" if name == "x-amz-content-sha256" else "BadDigest"
        assert (wrong.status, wrong.code) == (400, code), name
        assert driver.ask("PUT", "/data/wrong", headers={name: value[:-1] + "!"}, body=body).status == 400, name
    assert driver.ask("HEAD", "/data/wrong").status == 404
    stored = {name: good[name] for name in ("x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme")}
    driver.ask("PUT", "/data/key", headers=stored, body=body)
    asked = driver.ask("GET", "/data/key", headers={"x-amz-checksum-mode": "ENABLED"})
    assert stored.items() <= asked.headers.items()
    assert "x-amz-checksum-crc32c" not in driver.ask("GET", "/data/key").headers


def chunked(body: bytes, *trailers: str) -> bytes:
    return b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, b"".join(line.encode() + b"\r\n" for line in trailers))


def test_aws_chunked_bodies(driver: Driver) -> None:
    body = b"some bytes"
    crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    headers = {
        "content-encoding": "aws-chunked,gzip",
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-decoded-content-length": str(len(body)),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    assert (
        driver.ask("PUT", "/data/key", headers=headers, body=chunked(body, f"x-amz-checksum-crc32:{crc}")).status == 200
    )
    answer = driver.ask("GET", "/data/key", headers={"x-amz-checksum-mode": "ENABLED"})
    assert (answer.body, answer.headers["content-encoding"], answer.headers["x-amz-checksum-crc32"]) == (
        body,
        "gzip",
        crc,
    )
    for sent, code in [
        (chunked(b"other byte", f"x-amz-checksum-crc32:{crc}"), "BadDigest"),
        (chunked(body), "MalformedTrailerError"),
        (chunked(body + b"+", f"x-amz-checksum-crc32:{crc}"), "IncompleteBody"),
        (chunked(body[:-1], f"x-amz-checksum-crc32:{crc}"), "IncompleteBody"),
        (chunked(body, f"x-amz-checksum-crc32:{crc}")[:-4], "IncompleteBody"),
    ]:
        assert driver.ask("PUT", "/data/bad", headers=headers, body=sent).code == code, sent
    del headers["x-amz-decoded-content-length"]
    assert driver.ask("PUT", "/data/bad", headers=headers, body=chunked(body)).code == "MissingContentLength"
    assert driver.ask("HEAD", "/data/bad").status == 404


def test_a_body_is_plain_where_only_its_encoding_says_aws_chunked(driver: Driver) -> None:
    for encoding, kept in [("aws-chunked", None), ("gzip, aws-chunked", "gzip"), ("aws-chunked,br", "br")]:
        assert driver.ask("PUT", "/data/key", headers={"content-encoding": encoding}, body=b"plain").status == 200
        answer = driver.ask("GET", "/data/key")
        assert (answer.body, answer.headers.get("content-encoding")) == (b"plain", kept)
    anonymous = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": "5"}
    assert driver.ask("PUT", "/data/key", headers=anonymous, body=chunked(b"bytes")).status == 200
    assert driver.ask("GET", "/data/key").body == b"bytes"


def test_bodies_that_are_not_what_was_declared(driver: Driver) -> None:
    assert driver.ask("PUT", "/data/a", headers={"transfer-encoding": "chunked"}, body=b"1").code == "NotImplemented"
    assert driver.ask("PUT", "/data/a", headers={"content-length": str(6 << 30)}, body=b"1").code == "EntityTooLarge"
    assert driver.ask("HEAD", "/data/a").status == 404


def test_copies(driver: Driver) -> None:
    driver.put("from +%2F", b"abc", x_amz_meta_a="1", content_type="t/a")
    source = {"x-amz-copy-source": "/data/" + quote("from +%2F")}
    assert driver.ask("PUT", "/data/to", headers=source).xml.findtext("ETag") == f'"{hashlib.md5(b"abc").hexdigest()}"'
    copied = driver.ask("GET", "/data/to")
    assert (copied.body, copied.headers["x-amz-meta-a"], copied.headers["content-type"]) == (b"abc", "1", "t/a")
    replaced = {**source, "x-amz-metadata-directive": "REPLACE", "x-amz-meta-b": "2"}
    driver.ask("PUT", "/data/to", headers=replaced)
    assert "x-amz-meta-a" not in driver.ask("GET", "/data/to").headers
    itself = {"x-amz-copy-source": "data/to"}
    assert driver.ask("PUT", "/data/to", headers=itself).code == "InvalidRequest"
    assert driver.ask("PUT", "/data/x", headers={"x-amz-copy-source": "data/none"}).code == "NoSuchKey"
    assert (
        driver.ask("PUT", "/data/x", headers={**source, "x-amz-copy-source-if-match": '"x"'}).code
        == "PreconditionFailed"
    )
    assert driver.ask("PUT", "/data/x", headers={"x-amz-copy-source": "nothing"}).code == "InvalidArgument"


def test_batch_delete(driver: Driver) -> None:
    for key in ("a", "b&<>", "c"):
        driver.put(key)
    keys = ("a", "b&amp;&lt;&gt;", "no")
    body = f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>".encode()
    answer = driver.ask("POST", "/data", "delete", body=body)
    assert [found.text for found in answer.xml.findall("Deleted/Key")] == ["a", "b&<>", "no"]
    quiet = driver.ask("POST", "/data", "delete", body=body.replace(b"<Object>", b"<Quiet>true</Quiet><Object>", 1))
    assert list(quiet.xml) == []
    assert [found.text for found in driver.ask("GET", "/data").xml.findall("Contents/Key")] == ["c"]
    many = b"<Delete>" + b"<Object><Key>a</Key></Object>" * 1001 + b"</Delete>"
    for bad in (
        b"",
        b"<Delete>",
        b"<Delete/>",
        b"<Other/>",
        many,
        b"<!DOCTYPE x []><Delete/>",
        b"<Delete><Object/></Delete>",
    ):
        assert driver.ask("POST", "/data", "delete", body=bad).code == "MalformedXML", bad[:60]
    assert (
        driver.ask("POST", "/data", "delete", headers={"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, body=body).code
        == "BadDigest"
    )


def test_listing_documents(driver: Driver) -> None:
    for key in ("a/1", "a/2", "b", "c&d"):
        driver.put(key)
    first = driver.ask("GET", "/data", "list-type=2&delimiter=/&max-keys=2&fetch-owner=true").xml
    assert [found.text for found in first.findall("CommonPrefixes/Prefix")] == ["a/"]
    assert [found.text for found in first.findall("Contents/Key")] == ["b"]
    assert first.findtext("Contents/Owner/ID")
    assert (first.findtext("KeyCount"), first.findtext("IsTruncated")) == ("2", "true")
    token = quote(first.findtext("NextContinuationToken") or "", safe="")
    second = driver.ask("GET", "/data", f"list-type=2&delimiter=/&continuation-token={token}&start-after=zzz").xml
    assert [found.text for found in second.findall("Contents/Key")] == ["c&d"]
    assert second.findtext("IsTruncated") == "false"
    assert second.find("Contents/Owner") is None
    old = driver.ask("GET", "/data", "delimiter=/&max-keys=1").xml
    assert old.findtext("NextMarker") == "a/"
    assert [
        found.text for found in driver.ask("GET", "/data", "delimiter=/&marker=a/").xml.findall("Contents/Key")
    ] == ["b", "c&d"]
    after = driver.ask("GET", "/data", "list-type=2&start-after=a/1").xml
    assert [found.text for found in after.findall("Contents/Key")] == ["a/2", "b", "c&d"]
    assert driver.ask("GET", "/data", "list-type=2&max-keys=5000").xml.findtext("MaxKeys") == "1000"


def test_buckets(driver: Driver) -> None:
    assert driver.ask("PUT", "/other").status == 200
    assert [found.text for found in driver.ask("GET", "/").xml.findall("Buckets/Bucket/Name")] == ["data", "other"]
    assert driver.ask("HEAD", "/other").status == 200
    assert driver.ask("GET", "/other", "location").xml.tag == "LocationConstraint"
    assert driver.ask("GET", "/other", "versioning").xml.tag == "VersioningConfiguration"
    assert driver.ask("DELETE", "/other").status == 204
    assert driver.ask("HEAD", "/other").status == 404


def test_attributes_of_an_object(driver: Driver) -> None:
    driver.put("key", b"abc")
    answer = driver.ask("GET", "/data/key", "attributes", headers={"x-amz-object-attributes": "ETag, ObjectSize"})
    assert {found.tag: found.text for found in answer.xml} == {
        "ETag": hashlib.md5(b"abc").hexdigest(),
        "ObjectSize": "3",
    }


def test_counts(driver: Driver) -> None:
    driver.put("key", b"abc")
    driver.ask("GET", "/data/key")
    driver.ask("GET", "/data/key", headers={"range": "bytes=0-0"})
    driver.ask("GET", "/data/none")
    counts = driver.application.counters.snapshot()
    assert counts["requests"] == {"put_object": 1, "get_object": 2, "get_object_range": 1}
    assert (counts["errors"], counts["bytes_in"]) == ({"404": 1}, 3)
    assert driver.ask_admin("POST", "reset").status == 200
    assert driver.application.counters.snapshot()["requests"] == {}


def test_the_admin_route_refuses_what_it_does_not_know(driver: Driver) -> None:
    assert driver.ask_admin("GET", "none").status == 404
    assert driver.ask_admin("DELETE", "counts").status == 405
    for body in (b"{", b"[]", b'{"first_byte_s": -1}', b'{"none": 1}'):
        assert driver.ask_admin("PUT", "network", body=body).status == 400, body


def test_storage_classes_are_kept_and_shown(driver: Driver) -> None:
    driver.put("key", b"1", x_amz_storage_class="STANDARD_IA")
    driver.put("usual", b"1", x_amz_storage_class="STANDARD")
    assert driver.ask("HEAD", "/data/key").headers["x-amz-storage-class"] == "STANDARD_IA"
    assert "x-amz-storage-class" not in driver.ask("GET", "/data/usual").headers
    listed = driver.ask("GET", "/data").xml.findall("Contents/StorageClass")
    assert [found.text for found in listed] == ["STANDARD_IA", "STANDARD"]
    named = {"x-amz-object-attributes": "StorageClass"}
    assert driver.ask("GET", "/data/key", "attributes", headers=named).xml.findtext("StorageClass") == "STANDARD_IA"
    assert driver.ask("PUT", "/data/x", headers={"x-amz-storage-class": "COLD"}).code == "InvalidStorageClass"
    driver.ask("PUT", "/data/copy", headers={"x-amz-copy-source": "data/key"})
    assert "x-amz-storage-class" not in driver.ask("HEAD", "/data/copy").headers
    itself = {"x-amz-copy-source": "data/key", "x-amz-storage-class": "GLACIER"}
    assert driver.ask("PUT", "/data/key", headers=itself).status == 200
    assert driver.ask("HEAD", "/data/key").headers["x-amz-storage-class"] == "GLACIER"


def test_an_object_of_which_nobody_states_a_checksum_has_the_usual_one(driver: Driver) -> None:
    expected = base64.b64encode(checksums.crc64nvme(b"abc").to_bytes(8, "big")).decode()
    put = driver.put("key", b"abc")
    asked = driver.ask("GET", "/data/key", headers={"x-amz-checksum-mode": "ENABLED"})
    for answer in (put, asked):
        assert answer.headers["x-amz-checksum-crc64nvme"] == expected
        assert answer.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    assert "x-amz-checksum-crc64nvme" not in driver.ask("GET", "/data/key").headers
    named = {"x-amz-object-attributes": "Checksum"}
    attributes = driver.ask("GET", "/data/key", "attributes", headers=named).xml
    assert attributes.findtext("Checksum/ChecksumCRC64NVME") == expected
    copied = {"x-amz-copy-source": "data/key", "x-amz-checksum-algorithm": "SHA256"}
    document = driver.ask("PUT", "/data/copy", headers=copied).xml
    assert document.findtext("ChecksumSHA256") == base64.b64encode(hashlib.sha256(b"abc").digest()).decode()


def test_every_object_is_said_to_be_encrypted_with_the_providers_own_key(driver: Driver) -> None:
    name = "x-amz-server-side-encryption"
    assert driver.put("key", b"1", x_amz_server_side_encryption="AES256").headers[name] == "AES256"
    assert driver.ask("HEAD", "/data/key").headers[name] == "AES256"
    for headers, code in [
        ({name: "aws:kms"}, "NotImplemented"),
        ({name: "rot13"}, "InvalidArgument"),
        ({name + "-customer-algorithm": "AES256"}, "NotImplemented"),
    ]:
        assert driver.ask("PUT", "/data/key", headers=headers).code == code


def test_deletes_on_a_condition(driver: Driver) -> None:
    etag = driver.put("key", b"1").headers["etag"]
    assert driver.ask("DELETE", "/data/key", headers={"if-match": '"x"'}).code == "PreconditionFailed"
    assert driver.ask("DELETE", "/data/none", headers={"if-match": '"x"'}).status == 204
    batch = "<Delete><Object><Key>key</Key><ETag>{}</ETag></Object></Delete>"
    refused = driver.ask("POST", "/data", "delete", body=batch.format("x").encode()).xml
    assert refused.findtext("Error/Code") == "PreconditionFailed"
    assert driver.ask("DELETE", "/data/key", headers={"if-match": etag}).status == 204
    assert driver.ask("HEAD", "/data/key").status == 404


def test_a_copy_of_the_only_version_there_is(driver: Driver) -> None:
    driver.put("key", b"1")
    source = "data/key?versionId="
    assert driver.ask("PUT", "/data/to", headers={"x-amz-copy-source": source + "null"}).status == 200
    assert driver.ask("PUT", "/data/to", headers={"x-amz-copy-source": source + "abc"}).code == "NotImplemented"


def test_buckets_have_the_region_they_were_made_in(tmp_path: Path) -> None:
    driver = Driver(DirectoryStorage(tmp_path))
    document = "<CreateBucketConfiguration><LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>"
    for name, asked in [("ours", "eu-central-1"), ("old", "EU")]:
        assert driver.ask("PUT", f"/{name}", body=document.format(asked).encode()).status == 200
    wrong = driver.ask("PUT", "/wrong", body=document.format("moon").encode())
    assert wrong.code == "InvalidLocationConstraint"
    driver.application.close()
    driver.buckets.storage.close()
    again = Driver(DirectoryStorage(tmp_path))
    for name, region, constraint in [("ours", "eu-central-1", "eu-central-1"), ("data", "us-east-1", None)]:
        assert again.ask("HEAD", f"/{name}").headers["x-amz-bucket-region"] == region
        assert again.ask("GET", f"/{name}", "location").xml.text == constraint
    assert again.ask("HEAD", "/old").headers["x-amz-bucket-region"] == "eu-west-1"


def test_buckets_are_listed_by_prefix_and_region_and_in_pages(driver: Driver) -> None:
    region = (
        b"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>"
    )
    for name in ("data-1", "data-2", "other"):
        driver.ask("PUT", f"/{name}", body=region if name == "other" else b"")

    def names(query: str) -> list[str]:
        return [found.text or "" for found in driver.ask("GET", "/", query).xml.findall("Buckets/Bucket/Name")]

    assert names("") == ["data", "data-1", "data-2", "other"]
    assert names("prefix=data-") == ["data-1", "data-2"]
    assert names("bucket-region=eu-west-1") == ["other"]
    assert names("bucket-region=us-east-1&prefix=o") == []
    seen, token = [], ""
    while True:
        page = driver.ask("GET", "/", f"max-buckets=3{token}").xml
        seen.append([found.text for found in page.findall("Buckets/Bucket/Name")])
        following = page.findtext("ContinuationToken")
        if following is None:
            break
        token = f"&continuation-token={quote(following)}"
    assert seen == [["data", "data-1", "data-2"], ["other"]]
    described = driver.ask("GET", "/", "prefix=other").xml
    assert (described.findtext("Prefix"), described.findtext("Buckets/Bucket/BucketRegion")) == ("other", "eu-west-1")
    for query in ("max-buckets=0", "max-buckets=x", "continuation-token=x", "continuation-token="):
        assert driver.ask("GET", "/", query).code == "InvalidArgument"


GOOD_NAMES = ["abc", "a-b", "a.b", "1.2.3", "a" * 63, "a.b-c.d", "goggle"]
NO_NAMES = ["ab", "a" * 64, "A-b", "-ab", "ab-", ".ab", "ab.", "a..b", "a.-b", "a-.b", "192.168.5.123", "a b", "a.b.-"]


def test_buckets_have_the_names_of_hosts(driver: Driver) -> None:
    for port in (S3_PORT, GCS_PORT):
        for name in NO_NAMES:
            answer = driver.ask("PUT", f"/{quote(name)}", port=port)
            assert (answer.status, answer.code) == (400, "InvalidBucketName"), name
        for name in GOOD_NAMES:
            assert driver.ask("PUT", f"/{name}", port=port).status == 200, name
            driver.ask("DELETE", f"/{name}")


def test_names_that_a_provider_keeps_for_itself(driver: Driver) -> None:
    of_s3 = [
        "a_b",
        "xn--bucket",
        "sthree-x",
        "amzn-s3-demo-x",
        "x-s3alias",
        "x--ol-s3",
        "x.mrap",
        "x--x-s3",
        "x--table-s3",
    ]
    of_gcs = ["goog-x", "my-google-bucket", "g00gle"]
    for port, other, names in [(S3_PORT, GCS_PORT, of_s3), (GCS_PORT, S3_PORT, of_gcs)]:
        for name in names:
            assert driver.ask("PUT", f"/{name}", port=port).code == "InvalidBucketName", name
            assert driver.ask("PUT", f"/{name}", port=other).status == 200, name
    for name in of_gcs:
        body = json.dumps({"name": name}).encode()
        assert driver.ask("POST", "/storage/v1/b", body=body, port=GCS_PORT).status == 400


def test_a_wrong_checksum_is_refused_beside_a_right_one(driver: Driver) -> None:
    body = b"some bytes"
    right = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    headers = {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-decoded-content-length": str(len(body)),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    sent = chunked(body, f"x-amz-checksum-crc32:{right}")
    wrong = {**headers, "x-amz-checksum-crc32": "AAAAAA=="}
    assert driver.ask("PUT", "/data/key", headers=wrong, body=sent).code == "BadDigest"
    del headers["x-amz-trailer"]
    assert driver.ask("PUT", "/data/key", headers=headers, body=sent).code == "MalformedTrailerError"
    assert driver.ask("HEAD", "/data/key").status == 404


def test_a_directive_that_is_none_copies_nothing(driver: Driver) -> None:
    driver.put("from", b"1")
    headers = {"x-amz-copy-source": "data/from", "x-amz-metadata-directive": "MERGE"}
    assert driver.ask("PUT", "/data/to", headers=headers).code == "InvalidArgument"
    assert driver.ask("HEAD", "/data/to").status == 404
