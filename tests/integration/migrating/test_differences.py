"""What the page about migrating says that s3torchconnector does otherwise, it does otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from buckettestbed.launch import launch_testbed
from torchbucket import ConfigError, IterableDataset, MapDataset, NotFoundError, StoreConfig
from torchbucket.store import open_store
from torchbucket.store.protocol import Store

peer = pytest.importorskip("s3torchconnector")


@pytest.fixture(scope="module")
def reached() -> Iterator[tuple[Store, StoreConfig, dict[str, Any]]]:
    with launch_testbed(buckets=["my-bucket"]) as testbed, pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "AKIAMIGRATING")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "migrating-secret-key")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        config = StoreConfig(endpoint=testbed.s3_endpoint, region="eu-west-1", anonymous=True)
        store = open_store("s3://my-bucket", config)
        for key in ("train/", "train/0", "train/1"):
            store.write(key, b"abc")
        theirs = {
            "region": "eu-west-1",
            "endpoint": testbed.s3_endpoint,
            "s3client_config": peer.S3ClientConfig(force_path_style=True),
        }
        yield store, config, theirs


def beyond(reader: Any) -> tuple[int, bytes]:
    reader.seek(10)
    return reader.tell(), reader.read()


def test_seeking_beyond_the_end(reached):
    _, config, theirs = reached
    uris = ["s3://my-bucket/train/0"]
    for constructor in (peer.S3ReaderConstructor.sequential(), peer.S3ReaderConstructor.range_based()):
        dataset = peer.S3MapDataset.from_objects(uris, transform=beyond, reader_constructor=constructor, **theirs)
        assert dataset[0] == (3, b"")
    for fetch in ("whole", "lazy"):
        assert MapDataset.from_objects(uris, transform=beyond, fetch=fetch, config=config)[0] == (10, b"")


def test_one_address_and_none(reached):
    _, config, theirs = reached
    assert len(peer.S3MapDataset.from_objects("s3://my-bucket/train/0", **theirs)) == 1
    assert len(peer.S3MapDataset.from_objects([], **theirs)) == 0
    with pytest.raises(ConfigError, match="several addresses, such as"):
        MapDataset.from_objects("s3://my-bucket/train/0", config=config)
    with pytest.raises(ConfigError, match="at least one object; got none"):
        MapDataset.from_objects([], config=config)


def test_a_prefix_without_objects(reached):
    _, config, theirs = reached
    assert len(peer.S3MapDataset.from_prefix("s3://my-bucket/none/", **theirs)) == 0
    assert list(peer.S3IterableDataset.from_prefix("s3://my-bucket/none/", **theirs)) == []
    with pytest.raises(NotFoundError, match="allow_empty=True"):
        MapDataset.from_prefix("s3://my-bucket/none/", config=config)
    assert list(IterableDataset.from_prefix("s3://my-bucket/none/", config=config, allow_empty=True)) == []


def test_folder_markers_are_objects_in_both(reached):
    _, config, theirs = reached
    keys = [reader.key for reader in peer.S3IterableDataset.from_prefix("s3://my-bucket/train/0", **theirs)]
    assert keys == ["train/0"]
    theirs_first = next(iter(peer.S3IterableDataset.from_prefix("s3://my-bucket/train/", **theirs)))
    ours = IterableDataset.from_prefix("s3://my-bucket/train/", config=config)
    assert theirs_first.key == ours.keys[0] == "train/"


def test_their_iterable_lists_in_every_pass_and_ours_once(reached):
    store, config, theirs = reached
    datasets = [
        peer.S3IterableDataset.from_prefix("s3://my-bucket/train/", **theirs),
        IterableDataset.from_prefix("s3://my-bucket/train/", config=config),
    ]
    before = [len(list(dataset)) for dataset in datasets]
    store.write("train/later", b"abc")
    after = [len(list(dataset)) for dataset in datasets]
    store.delete("train/later")
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 0]
