from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket import IterableDataset, MapDataset, TarDataset, sweep_temporaries
from torchbucket.errors import ConfigError
from torchbucket.listing import Manifest
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI, key_bytes

KEYS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.sampled_from(["s3", "gs", "memory"]), KEYS)
def test_a_key_is_taken_literally(scheme: str, key: str) -> None:
    uri = ObjectURI.parse(f"{scheme}://my-bucket.name_1/{key}")
    assert (uri.scheme, uri.bucket, uri.key) == (scheme, "my-bucket.name_1", key)
    assert uri.root == f"{scheme}://my-bucket.name_1"
    assert ObjectURI.parse(str(uri)) == uri


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=3, max_size=9))
def test_a_files_key_is_its_whole_path(name: str) -> None:
    for key in (name, f"data/{name}", f"data/{name}/", f"{name}/cat/1.jpg"):
        uri = ObjectURI.parse(f"file:///{key}")
        assert (uri.root, uri.key, str(uri)) == ("file:///", key, f"file:///{key}")


@pytest.mark.parametrize("root", ["s3://b", "gs://b", "memory://b", "file:///b"])
def test_the_directory_of_an_object_is_in_its_key_whatever_the_scheme(root: str) -> None:
    assert ObjectURI.parse(f"{root}/train/cat/1.jpg").key.split("/")[-3:] == ["train", "cat", "1.jpg"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("file:///data//train/./x/", "data/train/x/"),
        ("file:///data/train/../val/", "data/val/"),
        ("file:///data/val/..", "data/"),
        ("file:////data/x", "data/x"),
        ("file:///a%20b/c#d?e", "a%20b/c#d?e"),
        ("file:///", ""),
    ],
)
def test_a_path_has_one_spelling(text: str, key: str) -> None:
    assert ObjectURI.parse(text).key == key


def test_paths_are_addresses_and_a_directorys_is_that_of_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d").mkdir()
    monkeypatch.chdir(tmp_path)
    for text in (tmp_path / "d", Path("d"), f"{tmp_path}/d", f"{tmp_path}/d/", "./d", "./d/", f"../{tmp_path.name}/d"):
        assert str(ObjectURI.parse(text)) == f"file://{tmp_path}/d/"
    for text in (tmp_path / "d" / "x", Path("d/x"), f"{tmp_path}/d/x", "./d/x"):
        assert str(ObjectURI.parse(text)) == f"file://{tmp_path}/d/x"
    assert str(ObjectURI.parse("./not yet/")) == f"file://{tmp_path}/not yet/"
    assert ObjectURI.parse(ObjectURI.parse("s3://b/k")) == ObjectURI.parse("s3://b/k")


@pytest.mark.parametrize("address", [None, 7, b"s3://b/k", ["s3://b/k"], {"uri": "s3://user:hunter2@b"}])
def test_what_is_no_text_and_no_path_is_refused_by_name(address: Any, tmp_path: Path) -> None:
    calls: list[Callable[[Any], object]] = [
        ObjectURI.parse,
        open_store,
        Manifest.from_prefix,
        Manifest.read,
        MapDataset.from_prefix,
        MapDataset.from_manifest,
        lambda given: MapDataset.from_objects([given]),
        IterableDataset.from_prefix,
        TarDataset.from_prefix,
        lambda given: TarDataset.from_objects([given]),
        sweep_temporaries,
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=f"got .* of the type {type(address).__name__}$") as caught:
            call(address)
        assert "os.PathLike" in str(caught.value)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("uris", [None, 7, Path("/d/k"), b"/d/k", "s3://b/k"])
def test_objects_come_by_several_addresses(uris: Any) -> None:
    with pytest.raises(ConfigError, match="several addresses"):
        MapDataset.from_objects(uris)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bucket/key",
        "http://host/key",
        "S3://bucket/key",
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


@pytest.mark.parametrize(
    "address", ["s3://bucket/d/key", "gs://bucket", "memory://name/k", "file:///data/k", "s3://bucket"]
)
def test_an_address_that_became_a_path_is_taken_for_what_it_was(address: str) -> None:
    as_path = Path(address)
    assert str(as_path) != address
    assert ObjectURI.parse(as_path) == ObjectURI.parse(str(as_path)) == ObjectURI.parse(address)


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
    assert (
        open_store("file:///data").uri == open_store("file:///data/").uri == open_store("/data").uri == "file:///data"
    )
    assert open_store(ObjectURI.parse("file:///data/key")).uri == open_store("file:///").uri == "file:///"


def test_each_scheme_has_its_store() -> None:
    for uri in ("s3://bucket", "gs://bucket", "memory://bucket", "file:///data"):
        assert open_store(uri).uri == uri
