from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket.errors import ConfigError
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI, key_bytes

KEYS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.sampled_from(["s3", "gs", "memory"]), KEYS)
def test_a_key_is_taken_literally(scheme: str, key: str) -> None:
    uri = ObjectURI.parse(f"{scheme}://my-bucket.name_1/{key}")
    assert (uri.scheme, uri.bucket, uri.key) == (scheme, "my-bucket.name_1", key)
    assert uri.root == f"{scheme}://my-bucket.name_1"
    assert ObjectURI.parse(str(uri)) == uri


@pytest.mark.parametrize(
    ("text", "directory", "key"),
    [
        ("file:///data/train/img_", "/data/train", "img_"),
        ("file:///data/train/", "/data/train", ""),
        ("file:///data", "/", "data"),
        ("file:///", "/", ""),
        ("file:///a%20b/c#d?e", "/a%20b", "c#d?e"),
    ],
)
def test_a_files_root_is_its_directory(text: str, directory: str, key: str) -> None:
    uri = ObjectURI.parse(text)
    assert (uri.bucket, uri.key) == (directory, key)
    assert str(uri) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bucket/key",
        "http://host/key",
        "S3://bucket/key",
        "s3:/bucket",
        "s3:///key",
        "s3://",
        "s3://bad bucket/k",
        "file://relative/path",
        "file://",
        "s3://lone/\udc80",
        "memory://",
        "s3://b:80/k",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        ObjectURI.parse(text)


@pytest.mark.parametrize("text", ["s3://user:hunter2@bucket/key", "https://user:hunter2@host/", "user:hunter2@s3"])
def test_a_password_in_an_address_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ObjectURI.parse(text)
    assert "hunter2" not in str(caught.value)


def test_keys_are_compared_by_their_bytes() -> None:
    assert sorted(["\U00010000", "\uffff", "a/b", "a.b"], key=key_bytes) == ["a.b", "a/b", "\uffff", "\U00010000"]


def test_opening_an_object_as_a_store_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"ObjectURI\.parse"):
        open_store("s3://bucket/key")
    assert open_store(ObjectURI.parse("memory://bucket/key")).uri == "memory://bucket"
    assert open_store("file:///data").uri == open_store("file:///data/").uri == "file:///data"


def test_each_scheme_has_its_store() -> None:
    for uri in ("s3://bucket", "gs://bucket", "memory://bucket", "file:///data"):
        assert open_store(uri).uri == uri
