"""Paths and directories of a bucket's file system, over objects in memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket import ConfigError, StoreConfig, UnsupportedError, open_store
from torchbucket.fsspec import BucketFileSystem, GcsBucketFileSystem, S3BucketFileSystem, register, unregister
from torchbucket.fsspec.directories import children


def test_a_path_is_bucket_and_key_however_it_is_written() -> None:
    fs = BucketFileSystem(protocol="s3")
    for path in ("s3://bucket/a/b", "s3a://bucket/a/b/", "bucket/a/b", "/bucket/a/b", Path("s3://bucket/a/b")):
        assert fs._strip_protocol(path) == "bucket/a/b", path
    assert fs._strip_protocol(["s3://bucket/a//b", "s3://bucket"]) == ["bucket/a//b", "bucket"]
    assert fs.unstrip_protocol("bucket/a b#?") == "s3://bucket/a b#?"
    with pytest.raises(ConfigError, match="for s3://"):
        fs.exists("gs://bucket/key")
    with pytest.raises(UnsupportedError, match="name one"):
        fs.ls("s3://")
    with pytest.raises(ConfigError, match="'s3', 'gs' or 'memory'"):
        BucketFileSystem(protocol="http")
    with pytest.raises(IsADirectoryError):
        fs.open("s3://bucket", "wb")
    with pytest.raises(ConfigError, match="got NoneType"):
        fs.exists(None)


def test_a_file_system_of_options_is_json_and_back() -> None:
    fs = BucketFileSystem(protocol="s3", anon=True, client_kwargs={"region_name": "eu-west-1"})
    again = fsspec.AbstractFileSystem.from_json(fs.to_json())
    assert isinstance(again, S3BucketFileSystem)
    assert again.config == fs.config
    with pytest.raises(UnsupportedError, match="pickle"):
        BucketFileSystem(protocol="s3", config=StoreConfig()).to_json()


@given(
    st.lists(st.text(alphabet="ab/\U0010ffff", min_size=1, max_size=6), unique=True, max_size=12),
    st.sampled_from(["", "a/", "a//"]),
    st.integers(1, 3),
)
def test_one_level_is_listed_whatever_a_page_holds(keys: list[str], prefix: str, page_size: int) -> None:
    store = open_store("memory://levels", StoreConfig(list_page_size=page_size))
    for info in list(store.list()):
        store.delete(info.key)
    for key in keys:
        store.write(key, b"")
    names = {key[len(prefix) :].partition("/")[:2] for key in keys if key.startswith(prefix) and key != prefix}
    found = children(store, "bucket", prefix)
    directories = {name for name, slash in names if slash}
    files = {name for name, slash in names if not slash}
    assert found.keys() == {f"bucket/{prefix}{name}" for name in directories | files}
    for path, entry in found.items():
        assert entry["type"] == ("file" if path.removeprefix(f"bucket/{prefix}") in files else "directory")


def test_a_directory_is_leapt_over_and_not_read() -> None:
    pages: list[str] = []
    store = open_store("memory://leaps", StoreConfig(list_page_size=10))
    for number in range(300):
        store.write(f"large/{number}", b"")
    store.write("small", b"")
    listed = store.submit_list_page

    def counted(prefix: str = "", *, start_after: str = "") -> object:
        pages.append(start_after)
        return listed(prefix, start_after=start_after)

    store.submit_list_page = counted  # type: ignore[method-assign, assignment]
    assert list(children(store, "leaps", "")) == ["leaps/large", "leaps/small"]
    assert len(pages) == 2


def test_registered_settings_are_of_one_protocol_and_go_with_a_pickle() -> None:
    before = fsspec.get_filesystem_class("s3")
    config = StoreConfig(region="eu-west-1")
    try:
        register(config, protocols="s3")
        assert fsspec.filesystem("s3").config == config
        assert isinstance(fsspec.filesystem("s3a"), S3BucketFileSystem)
        assert fsspec.filesystem("s3", anon=True).config == StoreConfig(region="eu-west-1", anonymous=True)
        assert fsspec.get_filesystem_class("gs") is not GcsBucketFileSystem
        pickled = pickle.dumps(fsspec.filesystem("s3"))
        register(protocols=["s3", "gs"])
        assert fsspec.filesystem("s3").config == StoreConfig()
        assert isinstance(fsspec.filesystem("gcs"), GcsBucketFileSystem)
        unregister("gs")
    finally:
        unregister()
    assert fsspec.get_filesystem_class("s3") is before
    assert pickle.loads(pickled).config == config
    with pytest.raises(ValueError, match="clobber"):
        register(clobber=False)
    assert fsspec.get_filesystem_class("s3") is before
    with pytest.raises(ConfigError, match="s3 and gs"):
        register(protocols="http")
