"""Programs that know fsspec, and nothing of torchbucket, over a registered file system."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from bucket_places import Place


def test_pyarrow_reads_parquet_that_it_wrote(registered: Place) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import dataset, fs, parquet

    table = arrow.table({"number": list(range(10_000)), "text": ["größe"] * 10_000})
    files = fs.PyFileSystem(fs.FSSpecHandler(registered.fs))
    for part in ("part=1", "part=2"):
        parquet.write_table(table, f"{registered.path}/{part}/file.parquet", filesystem=files)
    assert parquet.read_table(f"{registered.path}/part=1/file.parquet", filesystem=files, columns=["number"]).equals(
        table.select(["number"])
    )
    # By address: pyarrow asks fsspec for what it does not know, and knows s3 and gs by its own means.
    read = dataset.dataset(registered.path, filesystem=registered.fs, partitioning="hive").to_table()
    assert read.num_rows == 20_000
    assert set(read["part"].to_pylist()) == {1, 2}


def test_pandas_reads_what_it_wrote(registered: Place) -> None:
    pandas = pytest.importorskip("pandas", reason="no package of the project needs pandas")
    frame = pandas.DataFrame({"number": range(1000), "text": ["größe"] * 1000})
    frame.to_csv(f"{registered.uri}/frame.csv.gz", index=False)
    assert pandas.read_csv(f"{registered.uri}/frame.csv.gz").equals(frame)
    # Without a file system pandas has pyarrow read parquet by its own client for S3 and Cloud Storage.
    frame.to_parquet(f"{registered.path}/frame.parquet", filesystem=registered.fs)
    assert pandas.read_parquet(f"{registered.path}/frame.parquet", filesystem=registered.fs).equals(frame)


@pytest.mark.filterwarnings("ignore")  # torch.distributed warns that one process is alone
def test_distributed_checkpoints_by_torchs_own_fsspec_classes(registered: Place) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter  # where torch has them

    state = {"weight": torch.arange(100_000.0).reshape(100, -1), "step": torch.tensor(7)}
    for overwritten in (0, 1):
        state["step"] += overwritten
        checkpoint.save(state, storage_writer=FsspecWriter(f"{registered.uri}/step"), no_dist=True)
    found = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    checkpoint.load(found, storage_reader=FsspecReader(f"{registered.uri}/step"), no_dist=True)
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
    names = [name.removeprefix(f"{registered.path}/step/") for name in registered.fs.find(registered.path)]
    assert names == [".metadata", "__0_0.distcp"]


def test_lightnings_own_checkpoints_go_to_the_endpoint(registered: Place, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.demos.boring_classes import BoringModel

    directory = f"{registered.uri}/run"
    trained: list[int] = []

    def trainer(epochs: int) -> object:
        callback = ModelCheckpoint(dirpath=directory, save_top_k=2, monitor="epoch", mode="max", save_last=True)
        return lightning.Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            limit_train_batches=2,
            limit_val_batches=0,
            callbacks=[callback],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=str(tmp_path),
        )

    class Model(BoringModel):
        def on_train_epoch_end(self) -> None:
            trained.append(self.current_epoch)
            self.log("epoch", float(self.current_epoch))

    first = trainer(3)
    first.fit(Model())
    names = registered.fs.ls(registered.path + "/run", detail=False)
    assert [name.rpartition("/")[2] for name in names] == ["epoch=1-step=4.ckpt", "epoch=2-step=6.ckpt", "last.ckpt"]
    first.save_checkpoint(f"{registered.uri}/by-hand.ckpt")
    assert registered.fs.size(f"{registered.path}/by-hand.ckpt") > 0
    resumed = trainer(4)
    # By its address: for "last" Lightning looks among paths without their scheme, hence on this machine's disk.
    resumed.fit(Model(), ckpt_path=f"{directory}/last.ckpt")
    assert trained == [0, 1, 2, 3]
    assert resumed.global_step == 8
    assert not list(tmp_path.iterdir())
    registered.fs.rm(directory, recursive=True)
    assert not registered.fs.exists(directory)
