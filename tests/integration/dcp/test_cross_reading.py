"""s3torchconnector's reader reads what we wrote, and we what its writer wrote."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from s3torchconnector import S3ClientConfig
from s3torchconnector._s3client import S3Client
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
from s3torchconnector.dcp.s3_file_system import S3FileSystem
from s3torchconnector.dcp.s3_prefix_strategy import BinaryPrefixStrategy

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.dcp import BinaryPrefixes, BucketStorageReader, BucketStorageWriter


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


def theirs(storage: Any, testbed: RunningTestbed) -> Any:
    """One of their classes, which take no endpoint, with a client that has one."""
    config = S3ClientConfig(force_path_style=True, unsigned=True)
    client = S3Client("us-east-1", endpoint=testbed.s3_endpoint, s3client_config=config)
    storage.fs = S3FileSystem("us-east-1", s3_client=client)
    return storage


@pytest.mark.parametrize("spread", [False, True])
def test_either_reads_the_other_s(testbed: RunningTestbed, spread: bool) -> None:
    config = StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True)
    state = {"weight": torch.randn(300, 7), "view": torch.arange(40.0)[3:9], "scalar": torch.tensor(2), "epoch": 3}
    ours, others = f"s3://data/ours-{spread}/step-1", f"s3://data/theirs-{spread}/step-1"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        prefixes = BinaryPrefixes() if spread else None
        dcp.save(state, storage_writer=BucketStorageWriter(ours, config=config, prefixes=prefixes), no_dist=True)
        strategy = BinaryPrefixStrategy() if spread else None
        writer = theirs(S3StorageWriter("us-east-1", others, prefix_strategy=strategy), testbed)
        dcp.save(state, storage_writer=writer, no_dist=True)
        for reader in (
            theirs(S3StorageReader("us-east-1", ours), testbed),
            BucketStorageReader(others, config=config),
        ):
            into = {name: torch.zeros_like(value) if name != "epoch" else 0 for name, value in state.items()}  # type: ignore[call-overload]
            dcp.load(into, storage_reader=reader, no_dist=True)
            assert into["epoch"] == 3
            assert all(torch.equal(into[name], state[name]) for name in ("weight", "view", "scalar"))  # type: ignore[arg-type]
