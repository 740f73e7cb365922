"""Checkpoints of several files: an index that fits its files, or an error that names both."""

from __future__ import annotations

import json
import re

import pytest
import safetensors.torch
import torch
from stored_tensors import every_dtype, filled, same_tensors

from torchbucket import CheckpointError, ConfigError, NotFoundError, StoreError, open_store
from torchbucket.safetensors import load_file, safe_open, save_file, save_sharded, stream

INDEX = "model.safetensors.index.json"
TENSORS = {"a": filled((4,), torch.float32), "b": filled((2, 2), torch.float32, 1), "c": filled((3,), torch.uint8, 2)}


def write_by_hand(bucket: str, directory: str = "dir/") -> dict[str, object]:
    """What Hugging Face's tools write; returns the index."""
    store = open_store(bucket)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    store.write(directory + names[0], safetensors.torch.save({"a": TENSORS["a"]}, {"format": "pt"}))
    store.write(directory + names[1], safetensors.torch.save({"b": TENSORS["b"], "c": TENSORS["c"]}, {"format": "pt"}))
    index = {
        "metadata": {"total_size": 35, "total_parameters": 11},
        "weight_map": {"a": names[0], "b": names[1], "c": names[1]},
    }
    store.write(directory + INDEX, json.dumps(index).encode())
    return index


@pytest.mark.parametrize("address", [f"dir/{INDEX}", "dir/", "dir"])
def test_an_index_and_its_directory_are_addresses(bucket, address):
    write_by_hand(bucket)
    uri = f"{bucket}/{address}"
    assert same_tensors(load_file(uri), TENSORS)
    assert same_tensors(dict(stream(uri)), TENSORS)
    opened = safe_open(uri)
    assert opened.metadata() == {"total_size": 35, "total_parameters": 11}
    assert same_tensors({name: opened.get_tensor(name) for name in opened.keys()}, TENSORS)  # noqa: SIM118
    assert torch.equal(opened.get_slice("b")[1], TENSORS["b"][1])


def test_a_directory_may_hold_one_file(bucket):
    save_file(TENSORS, f"{bucket}/dir/model.safetensors")
    save_file(TENSORS, f"{bucket}/model.safetensors")
    for uri in (f"{bucket}/dir/", f"{bucket}/dir", f"{bucket}/", bucket):
        assert same_tensors(load_file(uri), TENSORS)


def test_a_directory_on_this_machine(tmp_path):
    save_sharded(TENSORS, tmp_path, max_shard_bytes=16)
    assert same_tensors(load_file(tmp_path), TENSORS)
    assert same_tensors(load_file(f"file://{tmp_path}"), TENSORS)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 3
    assert same_tensors({k: v for file in files for k, v in safetensors.torch.load_file(file).items()}, TENSORS)


def test_a_directory_with_both_is_ambiguous(bucket):
    write_by_hand(bucket)
    save_file(TENSORS, f"{bucket}/dir/model.safetensors")
    with pytest.raises(CheckpointError, match=rf"both model\.safetensors and {re.escape(INDEX)}"):
        load_file(f"{bucket}/dir/")
    assert same_tensors(load_file(f"{bucket}/dir/{INDEX}"), TENSORS)


def test_a_directory_with_neither_says_what_was_looked_for(bucket):
    open_store(bucket).write("dir/other.safetensors", safetensors.torch.save(TENSORS))
    with pytest.raises(NotFoundError, match=rf"dir/ has neither model\.safetensors nor {re.escape(INDEX)}"):
        load_file(f"{bucket}/dir/")
    with pytest.raises(NotFoundError, match=r"read memory://.*/dir: "):
        load_file(f"{bucket}/dir")


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
BAD = {
    "an absent tensor": ({"weight_map": {"a": A, "d": B}}, rf"'d' is in {B}, and that file \(.*{B}\) does not have it"),
    "another shard's tensor": ({"weight_map": {"b": A, "c": B}}, rf"'b' is in {A}, and .* does not have it; {B} does"),
    "total_size": ({"metadata": {"total_size": 36}}, rf"{INDEX}: the index says .* 36 bytes, .* 35 \(.*{A}, .*{B}\)"),
    "total_size no number": ({"metadata": {"total_size": "x"}}, "'x' bytes"),
    "no weight_map": ({"weight_map": None}, "needs weight_map"),
    "metadata": ({"metadata": [1]}, "metadata of an index must be an object"),
    **{
        f"file name {name!r}": ({"weight_map": {"a": name}}, "the index puts 'a' into .*; a file beside the index")
        for name in (
            "../m.safetensors",
            "/etc/passwd",
            "s3://other/m.safetensors",
            "a/../../m",
            "./m",
            "a//m",
            "",
            "..\\m",
            "c:m",
            "m\0",
            3,
            None,
            ["m"],
        )
    },
}


@pytest.mark.parametrize("case", BAD)
def test_an_index_that_does_not_fit_is_refused_before_any_payload_is_read(bucket, metered, case):
    changes, message = BAD[case]
    index = write_by_hand(bucket)
    metered.write(f"dir/{INDEX}", json.dumps({**index, **changes}).encode())
    for call in (load_file, safe_open, stream):
        with pytest.raises(CheckpointError, match=message) as caught:
            call(f"{bucket}/dir/{INDEX}")
        assert INDEX in str(caught.value)
    assert "submit_read_into" not in metered.usage().operations


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"weight_map": {"a": "x", "a": "y"}}', b"\xff\xfe"])
def test_an_index_that_is_no_json_object_is_refused(bucket, text):
    open_store(bucket).write(f"dir/{INDEX}", text)
    with pytest.raises(CheckpointError, match=INDEX):
        load_file(f"{bucket}/dir/{INDEX}")


def test_a_shard_of_another_size_is_named(bucket, metered):
    """Cut by one byte, longer by one, or another file: the header's end is not the object's."""
    write_by_hand(bucket)
    data = bytes(metered.read(f"dir/{B}").data)
    for other in (data[:-1], data + b"x", data[:20], b""):
        metered.write(f"dir/{B}", other)
        with pytest.raises(CheckpointError, match=f"dir/{B}"):
            load_file(f"{bucket}/dir/{INDEX}")
    assert "submit_read_into" not in metered.usage().operations


def test_an_absent_shard_is_named_with_the_index(bucket):
    write_by_hand(bucket)
    open_store(bucket).delete(f"dir/{B}")
    for uri in (f"{bucket}/dir/{INDEX}", f"{bucket}/dir"):
        with pytest.raises(NotFoundError, match=rf"{INDEX} names .*dir/{B}, which is not there"):
            load_file(uri)


def test_tensors_that_the_index_leaves_out_are_left_out(bucket, metered):
    index = write_by_hand(bucket)
    metered.write(f"dir/{INDEX}", json.dumps({**index, "weight_map": {"b": B}}).encode())
    with pytest.raises(CheckpointError, match="35 bytes, and the 1 files have 19"):
        load_file(f"{bucket}/dir/{INDEX}")  # total_size is neither of the one file nor of the one tensor
    for total in (16, 19):
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": {"b": B}})
        metered.write(f"dir/{INDEX}", text.encode())
        assert same_tensors(load_file(f"{bucket}/dir/{INDEX}"), {"b": TENSORS["b"]})


def test_files_in_directories_below_the_index(bucket):
    store = open_store(bucket)
    store.write("dir/part/one.safetensors", safetensors.torch.save(TENSORS))
    store.write(f"dir/{INDEX}", json.dumps({"weight_map": dict.fromkeys(TENSORS, "part/one.safetensors")}).encode())
    assert same_tensors(load_file(f"{bucket}/dir/{INDEX}"), TENSORS)


@pytest.mark.parametrize("most", [1, 16, 20, 35, 1 << 40])
def test_shards_are_as_few_as_the_bound_allows(bucket, most):
    info = save_sharded(TENSORS, f"{bucket}/dir", max_shard_bytes=most)
    assert info.key == f"dir/{INDEX}"
    store = open_store(bucket)
    files = [bytes(store.read(found.key).data) for found in store.list("dir/model-")]
    assert len(files) == {1: 3, 16: 3, 20: 2, 35: 1}.get(most, 1)
    assert same_tensors({k: v for data in files for k, v in safetensors.torch.load(data).items()}, TENSORS)
    assert same_tensors(load_file(f"{bucket}/dir"), TENSORS)
    index = json.loads(bytes(store.read(info.key).data))
    assert index["metadata"]["total_size"] == 35
    assert {safe_open(f"{bucket}/{found.key}").metadata()["format"] for found in store.list("dir/model-")} == {"pt"}


def test_every_dtype_in_shards_and_none_at_all(bucket):
    for tensors in (every_dtype(), {}):
        save_sharded(tensors, f"{bucket}/dir/", max_shard_bytes=64)
        assert same_tensors(load_file(f"{bucket}/dir/"), tensors)
    assert len(list(open_store(bucket).list())) == 2


def test_a_new_save_replaces_the_one_before_and_nothing_else(bucket):
    write_by_hand(bucket)
    store = open_store(bucket)
    store.write("dir/model-00000000-note.txt", b"mine")
    theirs = {info.key for info in store.list()}
    save_sharded(TENSORS, f"{bucket}/dir", max_shard_bytes=16)
    assert theirs < {info.key for info in store.list()}
    changed = {"a": torch.ones(2)}
    save_sharded(changed, f"{bucket}/dir")
    assert same_tensors(load_file(f"{bucket}/dir"), changed)
    assert len({info.key for info in store.list()} - theirs) == 1


class FailingWrites:
    """A store whose n-th write fails."""

    def __init__(self, inner, number):
        self.inner, self.left = inner, number

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def write_from(self, key, pieces, **conditions):
        self._count(key)
        return self.inner.write_from(key, pieces, **conditions)

    def write(self, key, data, **conditions):
        self._count(key)
        return self.inner.write(key, data, **conditions)

    def _count(self, key):
        self.left -= 1
        if not self.left:
            raise StoreError(f"write {key}: the disk is full")


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_save_that_fails_leaves_the_one_before(bucket, monkeypatch, number):
    save_sharded(TENSORS, f"{bucket}/dir", max_shard_bytes=16)
    store = open_store(bucket)
    before = {info.key for info in store.list()}
    changed = {name: filled(tuple(tensor.shape), tensor.dtype, 9) for name, tensor in TENSORS.items()}
    failing = FailingWrites(store, number)
    monkeypatch.setattr("torchbucket.safetensors.saving.shared_store", lambda location, config: failing)
    with pytest.raises(StoreError, match="disk is full"):
        save_sharded(changed, f"{bucket}/dir", max_shard_bytes=16)
    assert same_tensors(load_file(f"{bucket}/dir"), TENSORS)
    left = {info.key for info in store.list()} - before
    # A failed index may be there all the same, so that its files must stay.
    assert len(left) == (3 if number == 4 else 0)


def test_bounds_and_tensors_are_checked_before_anything_is_sent(bucket):
    for most in (0, -1, 1.5, "5GB", None):
        with pytest.raises(ConfigError, match="max_shard_bytes"):
            save_sharded(TENSORS, f"{bucket}/dir", max_shard_bytes=most)
    shared = torch.ones(3)
    with pytest.raises(ConfigError, match="share memory"):
        save_sharded({"a": shared, "b": torch.ones(1), "c": shared}, f"{bucket}/dir", max_shard_bytes=12)
    assert list(open_store(bucket).list()) == []
