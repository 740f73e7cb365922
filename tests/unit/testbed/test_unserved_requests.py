"""What the testbed does not serve is refused and changes nothing, whichever way a request asks for it.

The operations of S3 come from the description that boto3 works by, so that one that is new there is asked too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
from asgi_driver import Driver
from gcs_json_kit import OBJECTS, UPLOADS, JsonDriver, document_of, reason_of
from gcs_xml_kit import XmlDriver

SERVED = {
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateBucket",
    "CreateMultipartUpload",
    "DeleteBucket",
    "DeleteObject",
    "DeleteObjects",
    "GetBucketLocation",
    "GetBucketVersioning",
    "GetObject",
    "GetObjectAttributes",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
    "PutObject",
    "UploadPart",
    "UploadPartCopy",
}


@cache
def service() -> Any:
    return botocore.session.get_session().get_service_model("s3")


def unserved_operations() -> Iterator[tuple[str, str, str, str, dict[str, str]]]:
    """Name, method, path, query and headers of a request for each operation that the testbed has not."""
    for name in service().operation_names:
        operation = service().operation_model(name)
        path, _, query = operation.http["requestUri"].partition("?")
        if name in SERVED:
            continue
        named: dict[str, list[str]] = {"querystring": [], "header": []}
        members = operation.input_shape.members if operation.input_shape else {}
        for required in operation.input_shape.required_members if operation.input_shape else ():
            place = members[required].serialization
            if place.get("location") in named:
                named[place["location"]].append(place["name"])
        if name == "ListDirectoryBuckets":  # Asked at another host, where S3 tells it from ListBuckets by nothing else.
            query = "x-id=ListDirectoryBuckets"
        whole = "&".join([*([query] if query else []), *(f"{parameter}=x" for parameter in named["querystring"])])
        yield name, operation.http["method"], path, whole, {header.lower(): "data/there" for header in named["header"]}


@pytest.fixture
def driver() -> Driver:
    driven = Driver()
    driven.put("there", b"bytes")
    return driven


def state(driver: Driver) -> list[tuple[str, list[tuple[str, bytes]], int]]:
    """All that a request could have changed."""
    return [
        (
            bucket.name,
            [(key, driver.ask("GET", f"/{bucket.name}/{key}").body) for key in bucket.names],
            len(bucket.uploads),
        )
        for bucket in driver.buckets
    ]


def test_every_operation_of_s3_that_is_not_served_is_refused_and_does_nothing(driver: Driver) -> None:
    before, asked = state(driver), list(unserved_operations())
    assert {"RenameObject", "PutBucketVersioning", "PutObjectAcl", "ListObjectVersions"} <= {name for name, *_ in asked}
    assert set(service().operation_names) >= SERVED
    for name, method, path, query, headers in asked:
        for bucket in ("data", "new"):
            target = path.replace("{Bucket}", bucket).replace("{Key+}", "there")
            answer = driver.ask(method, target, query, headers=headers, body=b"<x/>")
            assert (answer.status, answer.code) == (501, "NotImplemented"), (name, bucket)
            assert state(driver) == before, (name, bucket)
    driver.ask("DELETE", "/data/there")
    driver.ask("DELETE", "/data", "uploads")
    assert driver.buckets.find("data") is not None


@pytest.mark.parametrize(
    ("method", "path", "query", "named"),
    [
        ("PUT", "/data/there", "partNumber=1", "partNumber"),
        ("PUT", "/data/there", "uploads", "uploads"),
        ("PUT", "/data/there", "versionId=null", "versionId"),
        ("PUT", "/data/there", "X-Amz-Copy-Source=data%2Fthere", "X-Amz-Copy-Source"),
        ("PUT", "/data/there", "x-amz-meta-a=b", "x-amz-meta-a"),
        ("DELETE", "/data/there", "versionId=abc", "versionId"),
        ("GET", "/data/there", "versionId=abc", "versionId"),
        ("GET", "/data", "list-type=3", "list-type"),
        ("GET", "/data", "uploads&versioning", "versioning"),
        ("POST", "/data", "", "POST of a bucket"),
        ("POST", "/data/there", "", "POST of an object"),
        ("POST", "/", "Action=ListUsers", "Action"),
    ],
)
def test_parameters_that_an_operation_does_not_take(
    driver: Driver, method: str, path: str, query: str, named: str
) -> None:
    before = state(driver)
    answer = driver.ask(method, path, query, body=b"other")
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert named in (answer.xml.findtext("Message") or "")
    assert state(driver) == before


@pytest.mark.parametrize(
    ("method", "query", "headers"),
    [
        ("PUT", "", {"x-amz-rename-source": "data/there"}),
        ("PUT", "", {"x-amz-write-offset-bytes": "5"}),
        ("PUT", "", {"content-range": "bytes 5-9/10"}),
        ("PUT", "", {"if-unmodified-since": "Sat, 29 Nov 2025 00:00:00 GMT"}),
        ("PUT", "", {"x-amz-acl": "public-read"}),
        ("PUT", "", {"x-amz-grant-read": "id=x"}),
        ("PUT", "", {"x-amz-tagging": "a=b"}),
        ("PUT", "", {"x-amz-object-lock-mode": "GOVERNANCE"}),
        ("PUT", "", {"x-amz-website-redirect-location": "/other"}),
        ("PUT", "", {"x-amz-checksum-sha512": "AAAA"}),
        ("PUT", "", {"x-amz-server-side-encryption-customer-key": "AAAA"}),
        ("PUT", "", {"x-amz-copy-source": "data/there", "x-amz-tagging-directive": "REPLACE"}),
        ("GET", "", {"x-amz-server-side-encryption-customer-algorithm": "AES256"}),
        ("DELETE", "", {"x-amz-if-match-size": "6"}),
        ("DELETE", "", {"x-amz-mfa": "1 2"}),
        ("DELETE", "", {"if-none-match": "*"}),
        ("POST", "uploads", {"x-amz-tagging": "a=b"}),
    ],
)
def test_headers_that_ask_for_what_is_not_done(
    driver: Driver, method: str, query: str, headers: dict[str, str]
) -> None:
    before = state(driver)
    answer = driver.ask(method, "/data/there", query, headers=headers, body=b"other")
    assert (answer.status, answer.code, answer.xml.findtext("Header")) == (501, "NotImplemented", list(headers)[-1])
    assert state(driver) == before


def test_what_changes_nothing_is_let_through(driver: Driver) -> None:
    for method, path, query, headers in [
        ("PUT", "/data/k", "x-id=PutObject&x-note=mine", {"x-amz-acl": "bucket-owner-full-control"}),
        ("PUT", "/data/k", "", {"x-amz-request-payer": "requester", "x-amz-object-lock-legal-hold": "OFF"}),
        ("GET", "/data/there", "versionId=null&X-Amz-Signature=0f", {"x-amz-expected-bucket-owner": "111122223333"}),
        ("PUT", "/other", "", {"x-amz-acl": "private", "x-amz-object-ownership": "BucketOwnerEnforced"}),
        ("GET", "/data", "list-type=2", {"x-amz-optional-object-attributes": "RestoreStatus"}),
    ]:
        assert driver.ask(method, path, query, headers=headers).status == 200, (path, query, headers)


def test_entries_of_a_batch_are_deleted_by_key_and_etag_alone(driver: Driver) -> None:
    entry = "<Delete><Object><Key>there</Key><{0}>{1}</{0}></Object></Delete>"
    for name, value in [("VersionId", "abc"), ("Size", "6"), ("LastModifiedTime", "x")]:
        answer = driver.ask("POST", "/data", "delete", body=entry.format(name, value).encode())
        assert answer.xml.findtext("Error/Code") == "NotImplemented"
    assert driver.ask("GET", "/data/there").body == b"bytes"
    assert driver.ask("POST", "/data", "delete", body=entry.format("VersionId", "null").encode()).status == 200
    assert driver.ask("HEAD", "/data/there").status == 404


def test_a_bucket_with_more_than_a_region_is_not_made(driver: Driver) -> None:
    tags = b"<CreateBucketConfiguration><Tags><Tag><Key>a</Key></Tag></Tags></CreateBucketConfiguration>"
    assert driver.ask("PUT", "/new", body=tags).code == "NotImplemented"
    locked = driver.ask("PUT", "/new", headers={"x-amz-bucket-object-lock-enabled": "true"})
    assert (locked.code, driver.buckets.find("new")) == ("NotImplemented", None)


@pytest.mark.parametrize(
    ("method", "path", "query", "headers"),
    [
        ("PUT", "/new", "versioning", {}),
        ("PUT", "/new", "lifecycle", {}),
        ("DELETE", "/data", "cors", {}),
        ("GET", "/data", "versions", {}),
        ("GET", "/", "max-keys=1", {}),
        ("PUT", "/data/there", "tagging", {}),
        ("PUT", "/data/there", "partNumber=1", {}),
        ("PUT", "/data/there", "upload_id=x", {}),
        ("PUT", "/data/there", "", {"x_goog_encryption_key": "AAAA"}),
        ("PUT", "/data/there", "", {"x_goog_acl": "public-read"}),
        ("PUT", "/data/there", "", {"x_goog_content_length_range": "0,1"}),
        ("PUT", "/data/there", "", {"x_goog_custom_time": "2026-01-01T00:00:00Z"}),
        ("PUT", "/data/there", "", {"x_amz_copy_source": "data/there"}),
        ("PUT", "/data/there", "", {"x_amz_decoded_content_length": "5"}),
        ("PUT", "/data/there", "", {"x_amz_meta_a": "b"}),
        ("PUT", "/data/there", "", {"if_none_match": "*"}),
        ("PUT", "/data/there", "", {"content_range": "bytes 0-4/5"}),
        ("POST", "/data/there", "", {"x_goog_resumable": "start"}),
        ("GET", "/data/there", "", {"x_goog_encryption_algorithm": "AES256"}),
    ],
)
def test_the_xml_api_refuses_it_too(method: str, path: str, query: str, headers: dict[str, str]) -> None:
    driver = XmlDriver()
    driver.store("there", b"bytes")
    before = state(driver)
    answer = driver.xml(method, path, query, b"other", **headers)
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert state(driver) == before


def test_what_changes_nothing_is_let_through_by_the_xml_api() -> None:
    driver = XmlDriver()
    assert driver.xml("PUT", "/data/k", "userProject=p&x-goog-custom-audit-job=1", x_goog_acl="private").status == 200
    assert driver.xml("GET", "/data/k", "GoogleAccessId=a&Expires=1&Signature=b", x_amz_date="d").status == 200


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "document"),
    [
        ("GET", OBJECTS, {"filter": "contexts"}, {}, None),
        ("GET", OBJECTS, {"alt": "proto"}, {}, None),
        ("GET", OBJECTS + "/there", {"softDeleted": "true"}, {}, None),
        ("GET", OBJECTS + "/there", {"restoreToken": "x"}, {}, None),
        ("GET", OBJECTS + "/there", {"alt": "media"}, {"x-goog-encryption-key": "AAAA"}, None),
        ("GET", "/storage/v1/b", {"unknown": "x"}, {}, None),
        ("POST", UPLOADS, {"uploadType": "media", "name": "there", "kmsKeyName": "k"}, {}, None),
        ("POST", UPLOADS, {"uploadType": "media", "name": "there", "predefinedAcl": "publicRead"}, {}, None),
        ("POST", UPLOADS, {"uploadType": "resumable", "name": "there"}, {}, {"temporaryHold": True}),
        ("POST", "/storage/v1/b", {"enableObjectRetention": "true"}, {}, {"name": "new"}),
        ("POST", OBJECTS + "/there/rewriteTo/b/data/o/c", {"destinationKmsKeyName": "k"}, {}, None),
        ("POST", OBJECTS + "/c/compose", {"kmsKeyName": "k"}, {}, {"sourceObjects": [{"name": "there"}]}),
        ("PATCH", OBJECTS + "/there", {}, {"if-match": "x"}, {"contentType": "a/b"}),
        ("PATCH", OBJECTS + "/there", {}, {}, {"customTime": "2026-01-01T00:00:00Z"}),
        ("PATCH", OBJECTS + "/there", {}, {}, {"acl": [{"entity": "allUsers", "role": "READER"}]}),
        ("DELETE", OBJECTS + "/there", {"bypassGovernance": "true"}, {}, None),
        ("POST", OBJECTS + "/there/restore", {"generation": "1"}, {}, None),
    ],
)
def test_the_json_api_refuses_it_too(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], document: object
) -> None:
    driver = JsonDriver()
    resource = driver.save("there", b"bytes")
    answer = driver.call(method, path, query, headers=headers, document=document)
    assert answer.status == 501
    if query.get("alt") != "media":
        assert reason_of(answer) == "notImplemented"
    assert document_of(driver.call("GET", driver.of("there"))) == resource
    assert (driver.names(), driver.buckets.find("new")) == (["there"], None)
    assert not driver.buckets.bucket("data").sessions


def test_what_changes_nothing_is_let_through_by_the_json_api() -> None:
    driver = JsonDriver()
    query = {"predefinedAcl": "projectPrivate", "predefinedDefaultObjectAcl": "bucketOwnerFullControl", "alt": "json"}
    off = {"name": "other", "versioning": {"enabled": False}}
    assert driver.call("POST", "/storage/v1/b", {**query, "enableObjectRetention": "False"}, document=off).status == 200
    driver.save("k", b"1", predefinedAcl="bucketOwnerFullControl", userProject="p", prettyPrint="false")
    back = document_of(driver.call("GET", driver.of("k"), {"projection": "full", "softDeleted": "False"}))
    updated = {**back, "temporaryHold": False, "retention": None, "acl": []}
    assert driver.call("PUT", driver.of("k"), {"projection": "full"}, document=updated).status == 200
    sent = {"x-goog-api-client": "x", "x-goog-custom-audit-job": "1"}
    assert driver.call("GET", driver.of("k"), {"alt": "media"}, headers=sent).status == 200
