"""The rules of GCS's XML API for objects and buckets, asked of the application in memory."""

from __future__ import annotations

import gzip
import hashlib
from email.utils import formatdate
from urllib.parse import quote

import pytest
from gcs_xml_kit import XmlDriver, crc32c_of, md5_of

from buckettestbed.model.memory import MemoryContent
from buckettestbed.model.objects import Attributes

ODD_KEYS = ["a//b", "./x", "../x", "d/", "/", "//", "+", "a b", "%2F", "%", "é\U0001f600", "?", "#", "\x01", "x" * 1024]


@pytest.fixture
def driver() -> XmlDriver:
    return XmlDriver()


@pytest.mark.parametrize("key", ODD_KEYS)
def test_names_are_byte_exact(driver: XmlDriver, key: str) -> None:
    driver.store(key, key.encode())
    assert driver.xml("GET", f"/data/{quote(key, safe='')}").body == key.encode()
    assert driver.xml("GET", "/" + quote(key), host="data.localhost:9001").body == key.encode()
    assert driver.ask("GET", f"/data/{quote(key)}").body == key.encode()
    for query in ("encoding-type=url", "list-type=2&encoding-type=url"):
        assert driver.xml("GET", "/data", query).xml.findtext("Contents/Key") == quote(key, safe="/")
    assert driver.xml("DELETE", f"/data/{quote(key)}").status == 204
    assert driver.xml("HEAD", f"/data/{quote(key)}").status == 404


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("x" * 1025, "KeyTooLong"),
        ("a%0Ab", "InvalidArgument"),
        ("a%0Db", "InvalidArgument"),
        (".", "InvalidArgument"),
        ("..", "InvalidArgument"),
        (".well-known/acme-challenge/x", "InvalidArgument"),
        ("%ff", "InvalidURI"),
    ],
)
def test_names_that_gcs_does_not_take(driver: XmlDriver, key: str, code: str) -> None:
    driver.store("from")
    for answer in (
        driver.xml("PUT", f"/data/{key}", body=b"1"),
        driver.xml("PUT", f"/data/{key}", x_goog_copy_source="/data/from"),
        driver.xml("POST", f"/data/{key}", "uploads"),
    ):
        assert (answer.status, answer.code) == (400, code)


def test_an_object_is_described_in_every_answer(driver: XmlDriver) -> None:
    body = b"some bytes"
    sent = {
        "content_type": "text/x-test",
        "cache_control": "no-store",
        "content_disposition": "inline",
        "content_language": "de",
        "x_goog_meta_colour": "bl\xe4u",
        "x_goog_storage_class": "nearline",
    }
    put = driver.store("key", body, **sent)
    expected = {
        "etag": f'"{hashlib.md5(body).hexdigest()}"',
        "x-goog-metageneration": "1",
        "x-goog-hash": f"crc32c={crc32c_of(body)},md5={md5_of(body)}",
        "x-goog-stored-content-length": "10",
        "x-goog-stored-content-encoding": "identity",
        "x-goog-storage-class": "NEARLINE",
        "x-goog-generation": put.headers["x-goog-generation"],
    }
    assert expected.items() <= put.headers.items()
    stored = {name.replace("_", "-"): value for name, value in sent.items()} | {"x-goog-storage-class": "NEARLINE"}
    for method, headers in [("GET", {}), ("HEAD", {}), ("GET", {"range": "bytes=0-3"})]:
        answer = driver.xml(method, "/data/key", **headers)
        assert (expected | stored | {"accept-ranges": "bytes"}).items() <= answer.headers.items()
    entry = driver.xml("GET", "/data").xml.find("Contents")
    assert entry is not None
    assert {found.tag: found.text for found in entry} == {
        "Key": "key",
        "Generation": expected["x-goog-generation"],
        "MetaGeneration": "1",
        "LastModified": entry.findtext("LastModified"),
        "ETag": expected["etag"],
        "Size": "10",
        "StorageClass": "NEARLINE",
    }
    overridden = driver.xml("GET", "/data/key", "response-content-type=a/b").headers
    assert (overridden["content-type"], overridden["cache-control"]) == ("a/b", "no-store")
    assert driver.xml("PUT", "/data/key", x_goog_storage_class="ICY").code == "InvalidStorageClass"
    assert driver.xml("PUT", "/data/key", x_goog_meta_a="x" * 9000).code == "MetadataTooLarge"


def test_errors_have_the_apis_codes_and_details(driver: XmlDriver) -> None:
    driver.store("here")
    for method, path, query, status, code in [
        ("GET", "/data/none", "", 404, "NoSuchKey"),
        ("DELETE", "/data/none", "", 404, "NoSuchKey"),
        ("GET", "/none/key", "", 404, "NoSuchBucket"),
        ("GET", "/none", "", 404, "NoSuchBucket"),
        ("PUT", "/none/key", "", 404, "NoSuchBucket"),
        ("DELETE", "/data", "", 409, "BucketNotEmpty"),
        ("PUT", "/data", "", 409, "BucketAlreadyOwnedByYou"),
        ("PUT", "/No_Bucket!", "", 400, "InvalidBucketName"),
        ("GET", "/data/here", "acl", 501, "NotImplemented"),
        ("PUT", "/data/here", "compose", 501, "NotImplemented"),
        ("POST", "/data/here", "", 501, "NotImplemented"),
        ("PATCH", "/data/here", "", 405, "MethodNotAllowed"),
        ("GET", "/data", "max-keys=-1", 400, "InvalidArgument"),
        ("GET", "/data/here", "generation=x", 400, "InvalidArgument"),
    ]:
        answer = driver.xml(method, path, query)
        assert (answer.status, answer.code) == (status, code), (method, path, query)
        assert answer.xml.findtext("Message")
        assert answer.xml.findtext("Details")
        assert answer.headers["x-guploader-uploadid"]
    assert driver.xml("GET", "/data/none").xml.findtext("Details") == "No such object: data/none"
    head = driver.xml("HEAD", "/data/none")
    assert (head.status, head.body) == (404, b"")


def test_ranges(driver: XmlDriver) -> None:
    driver.store("ten", b"0123456789")
    for asked, body, described in [
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=5-", b"56789", "bytes 5-9/10"),
        ("bytes=0-99", b"0123456789", "bytes 0-9/10"),
    ]:
        answer = driver.xml("GET", "/data/ten", range=asked)
        assert (answer.status, answer.body, answer.headers["content-range"]) == (206, body, described)
    beyond = driver.xml("GET", "/data/ten", range="bytes=10-")
    assert (beyond.status, beyond.code, beyond.headers["content-range"]) == (416, "InvalidRange", "bytes */10")
    assert driver.xml("GET", "/data/ten", range="bytes=1-2", if_range='"other"').status == 200


def test_conditional_reads(driver: XmlDriver) -> None:
    put = driver.store("key", b"1")
    etag, generation = put.headers["etag"], put.headers["x-goog-generation"]
    for headers, status in [
        ({"if_match": etag}, 200),
        ({"if_match": '"x"'}, 412),
        ({"if_none_match": etag}, 304),
        ({"if_none_match": '"x"'}, 200),
        ({"if_modified_since": formatdate(4e9, usegmt=True)}, 304),
        ({"if_unmodified_since": formatdate(0, usegmt=True)}, 412),
        ({"x_goog_if_generation_match": generation}, 200),
        ({"x_goog_if_generation_match": "1"}, 412),
        ({"x_goog_if_generation_not_match": generation}, 304),
        ({"x_goog_if_metageneration_match": "1"}, 200),
        ({"x_goog_if_metageneration_match": "2"}, 412),
        ({"x_goog_if_generation_match": "x"}, 400),
    ]:
        for method in ("GET", "HEAD"):
            answer = driver.xml(method, "/data/key", **headers)
            assert answer.status == status, headers
            if status == 304:
                assert (answer.headers["etag"], answer.body) == (etag, b"")
    assert driver.xml("GET", "/data/key", f"generation={generation}").status == 200
    driver.store("key", b"2")
    assert driver.xml("GET", "/data/key", f"generation={generation}").code == "NoSuchKey"


def test_conditional_writes_and_deletes(driver: XmlDriver) -> None:
    def put(match: str) -> int:
        return driver.xml("PUT", "/data/key", body=match.encode(), x_goog_if_generation_match=match).status

    assert put("7") == 412
    assert put("0") == 200
    assert put("0") == 412
    first = driver.generation("key")
    assert put(first) == 200
    second = driver.generation("key")
    assert int(second) > int(first)
    refused = driver.xml("PUT", "/data/key", body=b"x", x_goog_if_generation_match=first)
    assert (refused.code, refused.xml.findtext("Details")) == ("PreconditionFailed", "x-goog-if-generation-match")
    assert driver.xml("PUT", "/data/key", body=b"x", x_goog_if_metageneration_match="2").status == 412
    assert driver.xml("GET", "/data/key").body == first.encode()
    assert driver.xml("DELETE", "/data/key", f"generation={first}").status == 404
    assert driver.xml("DELETE", "/data/key", x_goog_if_generation_match=first).status == 412
    assert driver.xml("DELETE", "/data/key", f"generation={second}", x_goog_if_generation_match=second).status == 204


def test_hashes_are_verified(driver: XmlDriver) -> None:
    body = b"some bytes"
    good = {
        "content_md5": md5_of(body),
        "x_goog_hash": f"crc32c={crc32c_of(body)}, md5={md5_of(body)}",
        "x_goog_content_sha256": hashlib.sha256(body).hexdigest(),
    }
    for name, value in good.items():
        driver.store("key", body, **{name: value})
    for headers, code in [
        ({"content_md5": good["content_md5"]}, "BadDigest"),
        ({"x_goog_hash": f"md5={md5_of(body)}"}, "BadDigest"),
        ({"x_goog_hash": f"crc32c={crc32c_of(body)}"}, "CrcMismatch"),
        ({"x_goog_content_sha256": good["x_goog_content_sha256"]}, "BadDigest"),
        ({"x_goog_hash": "crc32c=AAAA"}, "InvalidDigest"),
        ({"content_md5": "!"}, "InvalidDigest"),
    ]:
        answer = driver.xml("PUT", "/data/wrong", body=b"other bytes", **headers)
        assert (answer.status, answer.code) == (400, code), headers
    assert driver.xml("HEAD", "/data/wrong").status == 404


def test_bodies_of_unknown_length_and_of_another_than_declared(driver: XmlDriver) -> None:
    answer = driver.xml("PUT", "/data/chunked", body=[b"ab", b"", b"c"], transfer_encoding="chunked")
    assert answer.status == 200
    assert driver.xml("GET", "/data/chunked").body == b"abc"
    assert driver.xml("PUT", "/data/a", body=b"1", content_length="2").code == "IncompleteBody"
    assert driver.xml("PUT", "/data/a", body=b"1", content_length=str(6 << 40)).code == "EntityTooLarge"
    assert driver.xml("HEAD", "/data/a").status == 404


def test_copies(driver: XmlDriver) -> None:
    driver.store("from +%2F", b"abc", x_goog_meta_a="1", content_type="t/a", x_goog_storage_class="COLDLINE")
    generation, source = driver.generation("from +%2F"), "/data/" + quote("from +%2F")
    answer = driver.xml("PUT", "/data/to", x_goog_copy_source=source)
    assert answer.xml.findtext("ETag") == f'"{hashlib.md5(b"abc").hexdigest()}"'
    copied = driver.xml("GET", "/data/to")
    assert copied.headers["x-goog-generation"] == answer.headers["x-goog-generation"] != generation
    assert (copied.body, copied.headers["x-goog-meta-a"], copied.headers["content-type"]) == (b"abc", "1", "t/a")
    assert copied.headers["x-goog-storage-class"] == "COLDLINE"
    replaced = {"x_goog_metadata_directive": "REPLACE", "x_goog_meta_b": "2", "x_goog_storage_class": "STANDARD"}
    assert driver.xml("PUT", "/data/to", x_goog_copy_source="data/to", **replaced).status == 200  # Onto itself.
    headers = driver.xml("HEAD", "/data/to").headers
    assert (headers.get("x-goog-meta-a"), headers["x-goog-meta-b"]) == (None, "2")
    for extra, code in [
        ({"x_goog_copy_source": "data/none"}, "NoSuchKey"),
        ({"x_goog_copy_source": "none/a"}, "NoSuchBucket"),
        ({"x_goog_copy_source": "nothing"}, "InvalidArgument"),
        ({"x_goog_copy_source": "data/%ff"}, "InvalidURI"),
        ({"x_goog_copy_source_generation": "1"}, "NoSuchKey"),
        ({"x_goog_copy_source_if_generation_match": "1"}, "PreconditionFailed"),
        ({"x_goog_copy_source_if_match": '"x"'}, "PreconditionFailed"),
        ({"x_goog_if_generation_match": "1"}, "PreconditionFailed"),
        ({"x_goog_metadata_directive": "MIX"}, "InvalidArgument"),
    ]:
        answer = driver.xml("PUT", "/data/x", **{"x_goog_copy_source": source, **extra})
        assert answer.code == code, extra
    good = {"x_goog_copy_source_generation": generation, "x_goog_copy_source_if_generation_match": generation}
    assert driver.xml("PUT", "/data/x", x_goog_copy_source=source, x_goog_if_generation_match="0", **good).status == 200


def test_listings_by_pages(driver: XmlDriver) -> None:
    for key in ("a/1", "a/2", "b", "c&d"):
        driver.store(key)
    first = driver.xml("GET", "/data", "max-keys=1").xml
    assert (first.findtext("NextMarker"), first.findtext("IsTruncated")) == ("a/1", "true")
    second = driver.xml("GET", "/data", "delimiter=/&max-keys=1").xml
    assert (second.findtext("NextMarker"), second.findtext("CommonPrefixes/Prefix")) == ("a/", "a/")
    rest = driver.xml("GET", "/data", "delimiter=/&marker=a/").xml
    assert [found.text for found in rest.findall("Contents/Key")] == ["b", "c&d"]
    newer = driver.xml("GET", "/data", "list-type=2&prefix=a&max-keys=1&fetch-owner=true").xml
    assert (newer.findtext("KeyCount"), newer.findtext("Contents/Owner/ID")) == ("1", "testbed")
    token = quote(newer.findtext("NextContinuationToken") or "", safe="")
    following = driver.xml("GET", "/data", f"list-type=2&prefix=a&continuation-token={token}").xml
    assert [found.text for found in following.findall("Contents/Key")] == ["a/2"]
    assert following.find("NextContinuationToken") is None
    after = driver.xml("GET", "/data", "list-type=2&start-after=a/2").xml
    assert [found.text for found in after.findall("Contents/Key")] == ["b", "c&d"]


def test_faults_of_listings_strike(driver: XmlDriver) -> None:
    for key in ("a", "b", "c"):
        driver.store(key)
    driver.set_faults({"kind": "skip_page", "operations": ["list_objects_v2"], "times": 1})
    page = driver.xml("GET", "/data", "list-type=2&max-keys=1").xml
    assert page.findtext("Contents/Key") == "b"


def test_buckets(driver: XmlDriver) -> None:
    assert driver.xml("PUT", "/other").status == 200
    listed = driver.xml("GET", "/").xml
    assert [found.text for found in listed.findall("Buckets/Bucket/Name")] == ["data", "other"]
    assert driver.xml("HEAD", "/other").headers["x-goog-storage-class"] == "STANDARD"
    for query, root, text in [
        ("location", "LocationConstraint", "US"),
        ("storageClass", "StorageClass", "STANDARD"),
        ("versioning", "VersioningConfiguration", None),
    ]:
        document = driver.xml("GET", "/other", query).xml
        assert (document.tag, document.text) == (root, text)
    assert driver.xml("DELETE", "/other").status == 204
    assert driver.xml("HEAD", "/other").status == 404


def test_compressed_objects_are_decompressed_for_who_does_not_take_gzip(driver: XmlDriver) -> None:
    plain = b"text " * 1000
    packed = gzip.compress(plain)
    driver.store("packed", packed, content_encoding="gzip")
    driver.store("kept", packed, content_encoding="gzip", cache_control="no-transform")
    driver.store("wrong", plain, content_encoding="gzip")
    asked = driver.xml("GET", "/data/packed", accept_encoding="gzip", range="bytes=0-1")
    assert (asked.status, asked.body, asked.headers["content-encoding"]) == (206, packed[:2], "gzip")
    whole = driver.xml("GET", "/data/packed", range="bytes=0-1")
    assert (whole.status, whole.body) == (200, plain)
    assert "content-encoding" not in whole.headers
    assert whole.headers["x-goog-stored-content-encoding"] == "gzip"
    assert driver.xml("GET", "/data/kept").body == packed
    assert driver.xml("GET", "/data/wrong").body == plain


def test_each_provider_sees_what_the_other_wrote(driver: XmlDriver) -> None:
    driver.store("by-gcs", b"abc", content_type="t/a", x_goog_storage_class="NEARLINE")
    seen = driver.ask("GET", "/data/by-gcs", headers={"x-amz-checksum-mode": "ENABLED"})
    assert (seen.body, seen.headers["content-type"]) == (b"abc", "t/a")
    assert seen.headers["x-amz-checksum-crc32c"] == crc32c_of(b"abc")
    assert seen.headers["x-amz-storage-class"] == "NEARLINE"
    assert "x-goog-storage-class" not in seen.headers
    driver.put("by-s3", b"abc", expires="never", x_amz_meta_a="1")
    seen = driver.xml("GET", "/data/by-s3")
    assert seen.headers["x-goog-hash"] == f"crc32c={crc32c_of(b'abc')},md5={md5_of(b'abc')}"
    assert (seen.headers["x-goog-meta-a"], seen.headers["content-type"]) == ("1", "application/octet-stream")
    assert "expires" not in seen.headers


def test_attributes_that_no_header_can_hold_break_no_answer(driver: XmlDriver) -> None:
    metadata = {"sp ace": "a\r\nx-evil: 1", "gr\u00fcn": "\u65e5"}
    bucket = driver.buckets.bucket("data")
    driver.buckets.put(
        bucket, "key", content=MemoryContent([b"1"]), etag="0" * 32, attributes=Attributes(metadata=metadata)
    )
    over_xml, over_s3 = driver.xml("GET", "/data/key"), driver.ask("GET", "/data/key")
    for seen, prefix in [(over_xml, "x-goog-meta-"), (over_s3, "x-amz-meta-")]:
        assert seen.status == 200
        assert "x-evil" not in seen.headers
        assert seen.headers[prefix + "sp%20ace"] == "a  x-evil: 1"
        assert seen.headers[prefix + "gr%C3%BCn"].encode("latin-1").decode() == "\u65e5"


def test_operations_are_counted_by_the_names_of_s3(driver: XmlDriver) -> None:
    driver.store("key", b"abc")
    driver.xml("GET", "/data/key")
    driver.xml("GET", "/data/key", range="bytes=0-0")
    driver.xml("HEAD", "/data/key")
    driver.xml("PUT", "/data/to", x_goog_copy_source="data/key")
    driver.xml("DELETE", "/data/to")
    driver.xml("GET", "/data", "list-type=2")
    assert driver.application.counters.snapshot()["requests"] == {
        "put_object": 1,
        "get_object": 1,
        "get_object_range": 1,
        "head_object": 1,
        "copy_object": 1,
        "delete_object": 1,
        "list_objects_v2": 1,
    }


def test_every_hash_that_is_stated_must_be_right(driver: XmlDriver) -> None:
    right, wrong = md5_of(b"abc"), md5_of(b"abd")
    for of_header, of_hash in [(right, wrong), (wrong, right)]:
        answer = driver.xml("PUT", "/data/key", body=b"abc", content_md5=of_header, x_goog_hash=f"md5={of_hash}")
        assert answer.code == "BadDigest"
    assert driver.xml("PUT", "/data/key", body=b"abc", content_md5=right, x_goog_hash=f"md5={right}").status == 200
