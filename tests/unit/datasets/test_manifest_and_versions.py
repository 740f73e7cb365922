"""Data sets of a manifest, and reads that are pinned to what was listed."""

from __future__ import annotations

import uuid

import pytest

from torchbucket import ConfigError, IterableDataset, MapDataset, NotFoundError, ObjectChangedError
from torchbucket.listing import Manifest
from torchbucket.store import open_store

KINDS = pytest.mark.parametrize("kind", [MapDataset, IterableDataset])
FETCHES = pytest.mark.parametrize("fetch", ["whole", "lazy"])


@pytest.fixture
def bucket() -> str:
    root = f"memory://manifest-{uuid.uuid4().hex}"
    store = open_store(root)
    for key in ("cat/1", "cat/2", "dog/1", "other"):
        store.write(f"train/{key}", key.encode())
    store.write("elsewhere", b"")
    return root


@pytest.fixture
def manifest(bucket, tmp_path) -> str:
    path = str(tmp_path / "train.parquet")
    Manifest.from_prefix(f"{bucket}/train/").write(path)
    return path


@KINDS
def test_a_manifest_is_a_data_set_without_a_listing(kind, bucket, manifest):
    open_store(bucket).write("train/written-later", b"later")
    dataset = kind.from_manifest(manifest)
    assert list(dataset.keys) == ["train/cat/1", "train/cat/2", "train/dog/1", "train/other"]
    assert list(dataset) == [b"cat/1", b"cat/2", b"dog/1", b"other"]
    assert list(dataset.keys) == list(kind.from_prefix(f"{bucket}/train/").keys)[:4]


@KINDS
def test_the_manifest_may_be_in_the_bucket(kind, bucket):
    Manifest.from_prefix(f"{bucket}/train/").write(f"{bucket}/manifests/train.parquet")
    dataset = kind.from_manifest(f"{bucket}/manifests/train.parquet", transform=lambda reader: reader.key)
    assert list(dataset) == list(dataset.keys)


@KINDS
def test_select_keeps_of_it_what_it_wants(kind, manifest):
    seen = []

    def keep(info) -> bool:
        seen.append((info.key, info.size_bytes, info.version is not None))
        return "cat" in info.key

    dataset = kind.from_manifest(manifest, select=keep, pin_versions=True)
    assert list(dataset) == [b"cat/1", b"cat/2"]
    assert seen[0] == ("train/cat/1", 5, True)
    assert len(seen) == 4
    with pytest.raises(NotFoundError, match="select kept none of the 4 objects"):
        kind.from_manifest(manifest, select=lambda info: False)
    assert list(kind.from_manifest(manifest, select=lambda info: False, allow_empty=True)) == []


@KINDS
def test_a_manifest_that_is_not_there_is_an_error(kind, tmp_path):
    with pytest.raises(NotFoundError, match=r"none\.parquet"):
        kind.from_manifest(str(tmp_path / "none.parquet"))


@KINDS
@FETCHES
def test_pinned_reads_notice_an_overwrite_of_the_same_size(kind, fetch, bucket, manifest):
    pinned = {
        "manifest": kind.from_manifest(manifest, pin_versions=True, fetch=fetch),
        "prefix": kind.from_prefix(f"{bucket}/train/", pin_versions=True, fetch=fetch),
    }
    unpinned = kind.from_manifest(manifest, fetch=fetch)
    assert all(list(dataset) == list(unpinned) for dataset in pinned.values())
    open_store(bucket).write("train/dog/1", b"DOG/1")
    for dataset in pinned.values():
        with pytest.raises(ObjectChangedError, match=f"{bucket}/train/dog/1"):
            list(dataset)
    assert list(unpinned)[2] == b"DOG/1"


@KINDS
def test_versions_that_nobody_knows_cannot_be_pinned(kind, bucket, tmp_path):
    path = str(tmp_path / "plain.parquet")
    Manifest.from_prefix(f"{bucket}/train/", versions=False).write(path)
    with pytest.raises(ConfigError, match="has no versions"):
        kind.from_manifest(path, pin_versions=True)
    with pytest.raises(ConfigError, match="from_objects knows no versions"):
        kind.from_objects([f"{bucket}/train/other"], pin_versions=True)


def test_a_stream_begun_from_a_listing_resumes_from_its_manifest(bucket, manifest):
    """The state is of the names, however they were found."""
    iterator = iter(IterableDataset.from_prefix(f"{bucket}/train/", shuffle=True))
    next(iterator)
    resumed = IterableDataset.from_manifest(manifest, shuffle=True)
    resumed.load_state_dict(iterator.state_dict())
    assert list(resumed) == list(iterator)
