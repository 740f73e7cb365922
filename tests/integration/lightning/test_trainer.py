"""A Trainer whose checkpoints are in a bucket: what is kept, what it resumes from, what its loggers hear."""

from __future__ import annotations

import threading
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers.logger import DummyLogger

import torchbucket
from torchbucket import PermissionDeniedError
from torchbucket.lightning import AsyncBucketCheckpointIO, BucketCheckpointIO, BucketModelCheckpoint
from torchbucket.store.s3.store import S3Store

PLUGINS = pytest.mark.parametrize("kind", [BucketCheckpointIO, AsyncBucketCheckpointIO])


class Model(lightning.LightningModule):
    """Its loss of an epoch is what it was told to be."""

    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.losses = losses
        self.began_at: int | None = None

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if self.began_at is None:
            self.began_at = self.global_step
        self.log("loss", self.losses[self.current_epoch])
        return self.layer(batch).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


class Heard(DummyLogger):
    """Writes down which of the checkpoints that the callback names are in the bucket when it hears of them."""

    def __init__(self, config: torchbucket.StoreConfig) -> None:
        super().__init__()
        self.config = config
        self.told: list[tuple[str, bool]] = []
        self.threads: set[threading.Thread] = set()
        self.told_at_the_end = 0

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        for path in filter(None, {checkpoint_callback.best_model_path, checkpoint_callback.last_model_path}):
            store = torchbucket.open_store(path.rpartition("/")[0].split("/data/")[0] + "/data", self.config)
            names = [info.key for info in store.list()]
            self.told.append((path.rpartition("/")[2], path.partition("/data/")[2] in names))
        self.threads.add(threading.current_thread())

    def finalize(self, status: str) -> None:
        self.told_at_the_end = len(self.told)


def fit(plugin: Any, callback: Any, losses: list[float], *, resume: Any = None, logger: Any = False) -> Model:
    model = Model(losses)
    trainer = lightning.Trainer(
        max_epochs=len(losses),
        plugins=[plugin],
        callbacks=[callback],
        logger=logger,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(torch.ones(2, 4), batch_size=1), ckpt_path=resume)
    return model


@PLUGINS
@pytest.mark.parametrize("callback", [ModelCheckpoint, BucketModelCheckpoint])
def test_the_best_are_kept_and_the_last(bucket, kind, callback):
    best = callback(dirpath=bucket.uri, filename="{epoch}", monitor="loss", save_top_k=2, save_last=True)
    fit(kind(bucket.config), best, [4.0, 1.0, 3.0, 2.0])
    assert bucket.names() == ["epoch=1.ckpt", "epoch=3.ckpt", "last.ckpt"]
    assert best.best_model_path == f"{bucket.uri}/epoch=1.ckpt"
    assert torchbucket.load(f"{bucket.uri}/last.ckpt", config=bucket.config)["epoch"] == 3


@PLUGINS
def test_a_run_resumes_from_an_address_and_from_the_last(bucket, kind):
    def callback() -> BucketModelCheckpoint:
        return BucketModelCheckpoint(dirpath=bucket.uri, filename="{epoch}", save_last=True)

    assert fit(kind(bucket.config), callback(), [1.0, 1.0], resume="last").began_at == 0  # there is none yet
    assert bucket.names() == ["epoch=1.ckpt", "last.ckpt"]
    assert fit(kind(bucket.config), callback(), [1.0] * 3, resume=f"{bucket.uri}/last.ckpt").began_at == 4
    assert fit(kind(bucket.config), callback(), [1.0] * 4, resume="last").began_at == 6
    # The one before each is superseded; neither of them was resumed from.
    assert bucket.names() == ["epoch=3.ckpt", "last.ckpt"]


def test_the_last_is_found_by_s3fs(bucket_by_s3fs):
    bucket = bucket_by_s3fs
    for epochs, began_at in ((1, 0), (2, 2)):
        callback = BucketModelCheckpoint(dirpath=bucket.uri, filename="{epoch}", save_last=True)
        model = fit(BucketCheckpointIO(bucket.config), callback, [1.0] * epochs, resume="last")
        assert model.began_at == began_at


@pytest.mark.parametrize("callback", [ModelCheckpoint, BucketModelCheckpoint])
def test_another_run_keeps_what_it_resumed_from(bucket, callback):
    fit(BucketCheckpointIO(bucket.config), callback(dirpath=f"{bucket.uri}/1", filename="{epoch}"), [1.0])
    second = callback(dirpath=f"{bucket.uri}/2", filename="{epoch}")
    fit(BucketCheckpointIO(bucket.config), second, [1.0] * 3, resume=f"{bucket.uri}/1/epoch=0.ckpt")
    assert bucket.names() == ["1/epoch=0.ckpt", "2/epoch=2.ckpt"]
    third = callback(dirpath=f"{bucket.uri}/2", filename="{epoch}")
    fit(BucketCheckpointIO(bucket.config), third, [1.0] * 5, resume=f"{bucket.uri}/2/epoch=2.ckpt")
    assert bucket.names() == ["1/epoch=0.ckpt", "2/epoch=2.ckpt", "2/epoch=4.ckpt"]


def test_a_run_changes_from_lightning_s_callback_to_ours(bucket):
    theirs = ModelCheckpoint(dirpath=bucket.uri, monitor="loss", filename="{epoch}")
    fit(BucketCheckpointIO(bucket.config), theirs, [1.0])
    ours = BucketModelCheckpoint(dirpath=bucket.uri, monitor="loss", filename="{epoch}")
    fit(BucketCheckpointIO(bucket.config), ours, [1.0, 2.0], resume=theirs.best_model_path)
    assert ours.best_k_models.keys() == {theirs.best_model_path}


@PLUGINS
def test_a_link_is_a_copy_by_the_server(bucket, kind):
    linked = BucketModelCheckpoint(dirpath=bucket.uri, filename="{epoch}", save_last="link")
    bucket.testbed.reset_counts()
    fit(kind(bucket.config), linked, [1.0, 1.0])
    requests = bucket.testbed.counts()["requests"]
    assert (requests["put_object"], requests["copy_object"]) == (2, 2)
    assert bucket.names() == ["epoch=1.ckpt", "last.ckpt"]
    assert torchbucket.load(linked.last_model_path, config=bucket.config)["epoch"] == 1
    assert linked.save_last == "link"


def test_lightning_s_own_callback_refuses_a_link_there(bucket):
    with pytest.raises(ValueError, match="link"):
        fit(BucketCheckpointIO(bucket.config), ModelCheckpoint(dirpath=bucket.uri, save_last="link"), [1.0])


@PLUGINS
def test_a_link_on_this_machine(tmp_path, kind):
    linked = BucketModelCheckpoint(dirpath=tmp_path, filename="{epoch}", save_last="link")
    fit(kind(), linked, [1.0, 1.0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch=1.ckpt", "last.ckpt"]
    assert torch.load(tmp_path / "last.ckpt")["epoch"] == 1
    assert (tmp_path / "last.ckpt").is_symlink() == (kind is BucketCheckpointIO)


@PLUGINS
def test_names_that_are_taken_get_versions(bucket, kind):
    """In other runs and in the same one."""
    check_versions(bucket, kind)


def test_names_that_are_taken_get_versions_by_s3fs(bucket_by_s3fs):
    """Which remembers what a directory held."""
    check_versions(bucket_by_s3fs, BucketCheckpointIO)


def check_versions(bucket: Any, kind: Any) -> None:
    for _ in range(2):
        fit(kind(bucket.config), BucketModelCheckpoint(dirpath=bucket.uri, filename="model"), [1.0])
    assert bucket.names() == ["model-v1.ckpt", "model.ckpt"]
    every = BucketModelCheckpoint(dirpath=bucket.uri, filename="m", monitor="loss", save_top_k=-1)
    fit(kind(bucket.config), every, [1.0, 2.0, 3.0])
    assert bucket.names()[:3] == ["m-v1.ckpt", "m-v2.ckpt", "m.ckpt"]


def test_the_name_of_a_save_that_is_under_way_is_taken(bucket, monkeypatch):
    asked, write_from = threading.Event(), S3Store.write_from

    class Callback(BucketModelCheckpoint):
        def file_exists(self, filepath: Any, trainer: Any) -> bool:
            taken = super().file_exists(filepath, trainer)
            if taken:
                asked.set()
            return taken

    def held(store: S3Store, key: str, pieces: Any, **options: Any) -> Any:
        assert asked.wait(60)
        return write_from(store, key, pieces, **options)

    monkeypatch.setattr(S3Store, "write_from", held)
    every = Callback(dirpath=bucket.uri, filename="m", monitor="loss", save_top_k=-1)
    fit(AsyncBucketCheckpointIO(bucket.config), every, [1.0, 2.0])
    assert bucket.names() == ["m-v1.ckpt", "m.ckpt"]


def test_a_root_directory_in_a_bucket(bucket, monkeypatch, tmp_path):
    """Which becomes a path without a slash on the way, where there is no logger."""
    monkeypatch.chdir(tmp_path)
    for epochs, began_at in ((1, 0), (2, 2)):
        model = Model([1.0] * epochs)
        trainer = lightning.Trainer(
            default_root_dir=bucket.uri,
            max_epochs=epochs,
            plugins=[BucketCheckpointIO(bucket.config)],
            callbacks=[BucketModelCheckpoint(save_last=True)],
            logger=False,
            accelerator="cpu",
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, torch.utils.data.DataLoader(torch.ones(2, 4), batch_size=1), ckpt_path="last")
        assert model.began_at == began_at
    assert bucket.names() == ["checkpoints/epoch=1-step=4.ckpt", "checkpoints/last.ckpt"]
    assert list(tmp_path.iterdir()) == []


@PLUGINS
def test_loggers_hear_of_what_is_durable_before_they_end(bucket, kind, monkeypatch):
    logger, write_from, at_once = Heard(bucket.config), S3Store.write_from, threading.Event()

    def late(store: S3Store, key: str, pieces: Any, **options: Any) -> Any:
        # In the background, when the training has gone on for as long as it can.
        if threading.current_thread() is not threading.main_thread():
            at_once.wait(0.2)
        return write_from(store, key, pieces, **options)

    monkeypatch.setattr(S3Store, "write_from", late)
    callback = BucketModelCheckpoint(dirpath=bucket.uri, filename="{epoch}", save_last=True)
    fit(kind(bucket.config), callback, [1.0, 1.0], logger=logger)
    assert ("epoch=1.ckpt", True) in logger.told
    assert ("last.ckpt", True) in logger.told
    if kind is AsyncBucketCheckpointIO:
        assert all(durable for _, durable in logger.told)
    assert logger.threads == {threading.main_thread()}
    assert logger.told_at_the_end == len(logger.told)


@pytest.mark.parametrize("callback", [ModelCheckpoint, BucketModelCheckpoint])
@pytest.mark.parametrize("failing", ["epoch=0.ckpt", "epoch=1.ckpt"])
def test_a_failed_save_ends_the_fit_and_removes_nothing(bucket, callback, failing):
    """One that a save follows, and the last one."""
    bucket.testbed.set_faults([{"kind": "error", "status": 403, "operations": ["put_object"], "key": f"*{failing}"}])
    logger = Heard(bucket.config)
    saving = callback(dirpath=bucket.uri, filename="{epoch}")
    with pytest.raises(PermissionDeniedError, match=failing):
        fit(AsyncBucketCheckpointIO(bucket.config), saving, [1.0, 1.0], logger=logger)
    assert bucket.names() == ([] if failing == "epoch=0.ckpt" else ["epoch=0.ckpt"])
    if callback is BucketModelCheckpoint:
        assert failing not in [name for name, _ in logger.told]
