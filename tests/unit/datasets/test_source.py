"""Which objects a data set has, and how it says that it has none."""

from __future__ import annotations

import pickle
import tracemalloc
import uuid

import pytest

from torchbucket import ConfigError, IterableDataset, MapDataset, NotFoundError, ObjectChangedError, StoreConfig
from torchbucket.files.reader import ObjectReader
from torchbucket.listing import Manifest
from torchbucket.store import open_store

KINDS = pytest.mark.parametrize("kind", [MapDataset, IterableDataset])


@pytest.fixture
def bucket() -> str:
    """The address of a fresh memory store with a few names that a path would not keep apart."""
    root = f"memory://source-{uuid.uuid4().hex}"
    store = open_store(root)
    for key in ("d/", "d/a", "d//a", "d/./a", "dx", "e#?%20/ü"):
        store.write(key, key.encode())
    return root


@KINDS
def test_a_prefix_is_plain_text(kind, bucket):
    assert kind.from_prefix(f"{bucket}/d/").keys == ["d/", "d/./a", "d//a", "d/a"]
    assert kind.from_prefix(f"{bucket}/d").keys == ["d/", "d/./a", "d//a", "d/a", "dx"]
    assert kind.from_prefix(bucket).keys == kind.from_prefix(f"{bucket}/").keys
    assert list(kind.from_prefix(f"{bucket}/e#?%")) == ["e#?%20/ü".encode()]


@KINDS
def test_select_keeps_what_it_wants(kind, bucket):
    dataset = kind.from_prefix(f"{bucket}/d", select=lambda info: not info.key.endswith("/") and info.size_bytes < 4)
    assert dataset.keys == ["d/a", "dx"]


@KINDS
def test_a_prefix_with_nothing_under_it_is_an_error_that_names_it(kind, bucket):
    with pytest.raises(NotFoundError, match=rf"{bucket}/dd.*allow_empty=True") as caught:
        kind.from_prefix(f"{bucket}/dd")
    assert caught.value.uri == f"{bucket}/dd"
    with pytest.raises(NotFoundError, match="select kept none of the 6 objects"):
        kind.from_prefix(bucket, select=lambda info: False)
    assert list(kind.from_prefix(f"{bucket}/dd", allow_empty=True)) == []


@KINDS
def test_objects_come_in_the_order_given(kind, bucket):
    dataset = kind.from_objects([f"{bucket}/dx", f"{bucket}/d//a", f"{bucket}/dx"])
    assert dataset.keys == ["dx", "d//a", "dx"]
    assert list(dataset) == [b"dx", b"d//a", b"dx"]


@KINDS
def test_an_object_that_is_not_there_is_named_when_it_is_read(kind, bucket):
    dataset = kind.from_objects([f"{bucket}/dx", f"{bucket}/gone"])
    with pytest.raises(NotFoundError, match=f"{bucket}/gone"):
        list(dataset)


@KINDS
@pytest.mark.parametrize(
    ("uris", "message"),
    [
        ([], "at least one object; got none"),
        ("s3://b/k", "takes several addresses"),
        (["s3://b/k", "s3://c/k"], r"in one bucket; got s3://b and s3://c\. Make a data set for each"),
        (["s3://b/k", "memory://b/k"], "in one bucket; got s3://b and memory://b"),
        (["s3://b/k", "s3://b"], "'s3://b/' has no key"),
        (["data/k"], "'data/k' is not an address"),
    ],
)
def test_addresses_that_make_no_data_set_are_refused(kind, uris, message):
    with pytest.raises(ConfigError, match=message):
        kind.from_objects(uris)


@KINDS
def test_files_of_several_directories(kind, tmp_path):
    for name in ("cat/1.txt", "cat/2.txt", "dog/1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    given = ["dog/1.txt", "cat/2.txt", "cat/1.txt"]
    assert list(kind.from_objects([f"file://{tmp_path}/{name}" for name in given])) == [n.encode() for n in given]
    base = f"{tmp_path}/".removeprefix("/")
    assert kind.from_objects([tmp_path / "cat" / "1.txt"]).keys == [f"{base}cat/1.txt"]
    assert kind.from_prefix(tmp_path).keys == [base + name for name in sorted(given)]
    assert kind.from_prefix(f"file://{tmp_path}/cat/1").keys == [f"{base}cat/1.txt"]


def label(reader: ObjectReader) -> str:
    return reader.key.split("/")[-2]


@KINDS
def test_a_label_is_the_parent_directorys_name_wherever_the_objects_are(kind, tmp_path):
    for root in (f"file://{tmp_path}", f"memory://{tmp_path.name}"):
        store = open_store(root)
        for name in ("train/cat/1.bin", "train/cat/2.bin", "train/dog/1.bin"):
            store.write(name, b"x")
        assert list(kind.from_prefix(f"{root}/train/", transform=label)) == ["cat", "cat", "dog"]
        assert list(kind.from_prefix(f"{root}/train/cat/", transform=label)) == ["cat", "cat"]
        assert list(kind.from_objects([f"{root}/train/dog/1.bin"], transform=label)) == ["dog"]
        manifest = f"{root}/m.parquet"
        Manifest.from_prefix(f"{root}/train/").write(manifest)
        assert list(kind.from_manifest(manifest, transform=label)) == ["cat", "cat", "dog"]


def test_a_state_goes_on_over_a_copy_that_lies_elsewhere(tmp_path):
    for place in ("here", "there"):
        for number in range(8):
            open_store(tmp_path / place).write(f"train/{number}", b"%d" % number)
    first = IterableDataset.from_prefix(tmp_path / "here" / "train", shuffle=True)
    iterator = iter(first)
    begun = [next(iterator) for _ in range(3)]
    second = IterableDataset.from_prefix(tmp_path / "there" / "train", shuffle=True)
    second.load_state_dict(iterator.state_dict())
    assert sorted(begun + list(second)) == [b"%d" % number for number in range(8)]


@KINDS
def test_an_object_overwritten_since_the_listing_is_never_cut_short(kind, bucket):
    dataset = kind.from_prefix(f"{bucket}/dx")
    open_store(bucket).write("dx", b"longer than before")
    with pytest.raises(ObjectChangedError, match=f"{bucket}/dx"):
        list(dataset)


@KINDS
def test_a_pickle_holds_the_listing_and_no_store(kind, bucket, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    dataset = kind.from_prefix(bucket, config=StoreConfig(region="eu-west-1"))
    assert list(dataset)
    sent = pickle.dumps(dataset)
    assert b"hush-hush" not in sent
    assert b"open_store" not in sent  # what a store pickles as
    received = pickle.loads(sent)
    assert received.keys == dataset.keys
    assert list(received) == list(dataset)


@KINDS
@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_a_large_object_is_in_memory_once(kind, fetch, bucket):
    size = 16 << 20
    open_store(bucket).write("large", b"x" * size)
    dataset = kind.from_prefix(f"{bucket}/large", fetch=fetch)
    tracemalloc.start()
    (sample,) = dataset
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sample == b"x" * size
    assert peak_bytes < 1.1 * size


@KINDS
def test_the_transform_sees_an_open_file(kind, bucket):
    dataset = kind.from_prefix(f"{bucket}/dx", transform=lambda reader: (reader.key, reader.uri, reader.readline()))
    assert list(dataset) == [("dx", f"{bucket}/dx", b"dx")]
