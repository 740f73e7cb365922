"""The plugin by itself: every kind of path, what is removed and what is kept, both of Lightning's packages."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import lightning.fabric.plugins
import lightning_fabric.plugins
import pytest
import torch

import torchbucket
from torchbucket import ConfigError, NotFoundError, StoreConfig
from torchbucket.lightning import AsyncBucketCheckpointIO, BucketCheckpointIO

STATE = {"state_dict": {"weight": torch.arange(6.0)}, "epoch": 3}


def is_state(found: dict[str, Any]) -> bool:
    return found["epoch"] == 3 and torch.equal(found["state_dict"]["weight"], STATE["state_dict"]["weight"])


def test_what_is_saved_is_loaded_and_removed(either_bucket):
    plugin = BucketCheckpointIO(either_bucket.config)
    uri = f"{either_bucket.uri}/epoch=3.ckpt"
    plugin.save_checkpoint(checkpoint=STATE, path=uri, storage_options=None)
    assert is_state(plugin.load_checkpoint(path=uri, weights_only=True))
    assert is_state(torchbucket.load(uri, config=either_bucket.config))
    collapsed = Path(f"{either_bucket.uri}/second.ckpt")
    assert "://" not in str(collapsed)
    plugin.save_checkpoint(STATE, collapsed)
    assert is_state(plugin.load_checkpoint(collapsed))
    assert either_bucket.names() == ["epoch=3.ckpt", "second.ckpt"]
    plugin = BucketCheckpointIO(either_bucket.config)
    plugin.remove_checkpoint(collapsed)
    plugin.remove_checkpoint(uri)
    plugin.remove_checkpoint(uri)  # nothing is there
    assert either_bucket.names() == []


def test_a_directory_is_removed_with_all_that_is_in_it_and_no_more(either_bucket):
    plugin = BucketCheckpointIO(either_bucket.config)
    for name in ("epoch=1/.metadata", "epoch=1/a/__0_0.distcp", "epoch=1/__1_0.distcp", "epoch=10.ckpt", "epoch=1.txt"):
        plugin.save_checkpoint({}, f"{either_bucket.uri}/{name}")
    plugin.remove_checkpoint(f"{either_bucket.uri}/epoch=1/")
    assert either_bucket.names() == ["epoch=1.txt", "epoch=10.ckpt"]


def test_without_the_right_to_list_an_object_is_removed_still(bucket, caplog):
    plugin = BucketCheckpointIO(bucket.config)
    plugin.save_checkpoint({}, f"{bucket.uri}/a.ckpt")
    bucket.testbed.set_faults([{"kind": "error", "status": 403, "operations": ["list_objects_v2"]}])
    plugin.remove_checkpoint(f"{bucket.uri}/a.ckpt")
    assert "is removed, but not what may lie below it" in caplog.text
    bucket.testbed.set_faults([])
    assert bucket.names() == []


@pytest.mark.parametrize("path", ["s3://data", "s3://data/", Path("s3://data"), "gs://data//"])
def test_a_whole_bucket_is_no_checkpoint(path):
    plugin = BucketCheckpointIO()
    for use in (plugin.remove_checkpoint, plugin.load_checkpoint, lambda path: plugin.save_checkpoint({}, path)):
        with pytest.raises(ConfigError, match="whole bucket"):
            use(path)


def test_paths_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Settings of a bucket do not get in the way.
    plugin = BucketCheckpointIO(StoreConfig(region="eu-west-1", endpoint="http://127.0.0.1:1"))
    for path in ("new/model.ckpt", Path("a.ckpt"), str(tmp_path / "b.ckpt"), f"file://{tmp_path}/c.ckpt"):
        plugin.save_checkpoint(STATE, path)
        assert is_state(plugin.load_checkpoint(path))
    assert is_state(torch.load("new/model.ckpt"))
    (tmp_path / "last.ckpt").symlink_to("a.ckpt")
    plugin = BucketCheckpointIO()
    plugin.remove_checkpoint("last.ckpt")
    plugin.remove_checkpoint("new")
    plugin.remove_checkpoint("nowhere/x.ckpt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ckpt", "b.ckpt", "c.ckpt"]


def test_a_save_that_fails_leaves_what_was_there(bucket):
    plugin = BucketCheckpointIO(bucket.config)
    uri = f"{bucket.uri}/last.ckpt"
    plugin.save_checkpoint(STATE, uri)
    bucket.testbed.set_faults([{"kind": "error", "status": 403, "operations": ["put_object"]}])
    with pytest.raises(torchbucket.PermissionDeniedError, match=r"last\.ckpt"):
        plugin.save_checkpoint({"epoch": 4}, uri)
    assert is_state(plugin.load_checkpoint(uri))


def test_only_weights_are_loaded_unless_told_otherwise(bucket):
    plugin = BucketCheckpointIO(bucket.config)
    uri = f"{bucket.uri}/hparams.ckpt"
    plugin.save_checkpoint({"hparams": argparse.Namespace(lr=0.1)}, uri)
    for weights_only in (None, True):
        with pytest.raises(pickle.UnpicklingError, match="Namespace"):
            plugin.load_checkpoint(uri, weights_only=weights_only)
    assert plugin.load_checkpoint(uri, weights_only=False) == {"hparams": argparse.Namespace(lr=0.1)}


def test_what_cannot_be_done_is_said(bucket):
    plugin = BucketCheckpointIO(bucket.config)
    with pytest.raises(TypeError, match="StoreConfig"):
        plugin.save_checkpoint({}, f"{bucket.uri}/a.ckpt", storage_options={"anon": True})
    with pytest.raises(FileNotFoundError, match=r"nothing\.ckpt") as failure:
        plugin.load_checkpoint(f"{bucket.uri}/nothing.ckpt")
    assert isinstance(failure.value, NotFoundError)
    with pytest.raises(ConfigError, match="http"):
        plugin.load_checkpoint("http://127.0.0.1/a.ckpt")
    with pytest.raises(ConfigError, match="two"):
        plugin.copy_checkpoint(f"{bucket.uri}/a.ckpt", "s3://other/a.ckpt")
    with pytest.raises(ConfigError, match="config"):
        BucketCheckpointIO("s3://data")


def test_what_the_run_went_on_from_is_never_removed(bucket):
    first = BucketCheckpointIO(bucket.config)
    for name in ("run-1/best.ckpt", "run-1/last.ckpt", "run-2/old.ckpt"):
        first.save_checkpoint(STATE, f"{bucket.uri}/{name}")
    second = BucketCheckpointIO(bucket.config)
    second.load_checkpoint(Path(f"{bucket.uri}/run-1/last.ckpt"))
    second.save_checkpoint(STATE, f"{bucket.uri}/run-2/new.ckpt")
    # What it loaded, and what contains it; what else the other run left; and what is superseded where it saves itself.
    for name in ("run-1/last.ckpt", "run-1", "run-1/best.ckpt", "run-2/old.ckpt", "run-2/new.ckpt"):
        second.remove_checkpoint(f"{bucket.uri}/{name}")
    assert bucket.names() == ["run-1/best.ckpt", "run-1/last.ckpt"]


def test_what_was_loaded_and_not_trained_on_is_removed(bucket):
    """As Lightning does with the weights that a spawned process leaves to the one that began it."""
    plugin = BucketCheckpointIO(bucket.config)
    plugin.save_checkpoint(STATE, f"{bucket.uri}/weights.ckpt")
    plugin.load_checkpoint(f"{bucket.uri}/weights.ckpt")
    plugin.remove_checkpoint(f"{bucket.uri}/weights.ckpt")
    assert bucket.names() == []


def test_what_the_run_went_on_from_and_saved_over_is_removed(bucket):
    uri = f"{bucket.uri}/last.ckpt"
    plugin = BucketCheckpointIO(bucket.config)
    for _ in range(2):
        plugin.save_checkpoint(STATE, uri)
        plugin.load_checkpoint(uri)
    plugin.remove_checkpoint(uri)
    assert bucket.names() == []


@pytest.mark.parametrize("kind", [BucketCheckpointIO, AsyncBucketCheckpointIO])
def test_both_packages_take_the_plugin_for_one_of_theirs(kind):
    plugin = kind(StoreConfig(region="eu-west-1"))
    assert isinstance(plugin, lightning.fabric.plugins.CheckpointIO)
    assert isinstance(plugin, lightning_fabric.plugins.CheckpointIO)
    copied = pickle.loads(pickle.dumps(plugin))
    assert (type(copied), copied._config) == (kind, plugin._config)
    assert kind.__module__ == "torchbucket.lightning"
