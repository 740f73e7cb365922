"""``.metadata`` is read as PyTorch writes it, and what else a pickle may hold is refused before it can run."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from torchbucket import CheckpointError
from torchbucket.dcp import metadata_file
from torchbucket.dcp.metadata_file import metadata_bytes, metadata_from

URI = "memory://dcp/step-1/.metadata"


SCALAR = (TensorProperties(torch.int64), torch.Size([]))
NEGATIVE = ChunkStorageMetadata(torch.Size([0]), torch.Size([-1]))


class Runs:
    """Would run a command where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("false",)


class Registered:
    """A class that a user's planner keeps in the metadata."""

    def __init__(self) -> None:
        self.epoch = 3


def metadata(**fields: Any) -> Metadata:
    chunks = [
        ChunkStorageMetadata(torch.Size([0, 0]), torch.Size([2, 3])),
        ChunkStorageMetadata(torch.Size([2, 0]), torch.Size([2, 3])),
    ]
    properties = TensorProperties(torch.float8_e4m3fn, memory_format=torch.channels_last, requires_grad=True)
    values: dict[str, Any] = {
        "state_dict_metadata": {
            "weight": TensorStorageMetadata(properties, torch.Size([4, 3]), chunks),
            "scalar": TensorStorageMetadata(
                TensorProperties(torch.int64), torch.Size([]), [ChunkStorageMetadata(torch.Size([]), torch.Size([]))]
            ),
            "epoch": BytesStorageMetadata(),
        },
        "planner_data": {"weight": ("weight",), "epoch": ("o", 0, "epoch")},
        "storage_data": {
            MetadataIndex("weight", torch.Size([0, 0]), 0): _StorageInfo("__0_0.distcp", 0, 100),
            MetadataIndex("weight", torch.Size([2, 0]), 1): _StorageInfo("__1_0.distcp", 0, 100, ["zstd"]),
            MetadataIndex("scalar", torch.Size([])): _StorageInfo("__0_0.distcp", 100, 7),
            MetadataIndex("epoch"): _StorageInfo("__0_0.distcp", 107, 9),
        },
        "storage_meta": StorageMeta(checkpoint_id=Path("/run/step-1"), save_id="abc", modules=["model"]),
        "version": "1.0.0",
    }
    return Metadata(**(values | fields))


def test_what_pytorch_writes_is_read_as_it_was() -> None:
    written = metadata()
    read = metadata_from(metadata_bytes(written), URI)
    assert read.storage_meta is not None
    assert read.storage_meta.checkpoint_id == "/run/step-1"
    read.storage_meta.checkpoint_id = Path("/run/step-1")
    assert read == written
    hints = [index.index for index in read.storage_data]
    assert hints == [0, 1, None, None]
    # Which PyTorch reads in turn.
    assert pickle.loads(metadata_bytes(read)) == written  # our own bytes


@pytest.mark.parametrize("protocol", range(2, 6))
def test_every_protocol_is_read(protocol: int) -> None:
    assert metadata_from(pickle.dumps(metadata(), protocol), URI).state_dict_metadata == metadata().state_dict_metadata


@pytest.mark.parametrize("field", ["planner_data", "storage_data", "state_dict_metadata", "version"])
def test_what_may_run_code_is_refused(field: str) -> None:
    content = pickle.dumps(metadata(**{field: {"key": Runs()}}))
    with pytest.raises(CheckpointError, match=r"step-1/\.metadata names (posix|nt)\.system"):
        metadata_from(content, URI)


def test_no_class_of_pytorch_can_be_changed() -> None:
    """A pickle sets attributes of whatever it has got hold of; of a class, too."""
    program = b"\x80\x02ctorch.distributed.checkpoint.metadata\nMetadataIndex\n"
    program += b"N}X\x08\x00\x00\x00__init__ctorch\nSize\ns\x86b."
    pickletools.dis(program, out=io.StringIO())  # it is one
    before = MetadataIndex.__init__
    with pytest.raises(CheckpointError, match="no metadata of a distributed checkpoint"):
        metadata_from(program, URI)
    assert MetadataIndex.__init__ is before


def test_few_bytes_cannot_stand_for_more_than_there_is_memory_for() -> None:
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested, nested]
    assert metadata_from(metadata_bytes(metadata(planner_data={"nested": nested})), URI).planner_data["nested"][1]


def test_no_function_of_ours_can_be_changed() -> None:
    program = b"\x80\x02ctorch.serialization\n_get_layout\nN}X\x06\x00\x00\x00stolenK\x01s\x86b."
    with pytest.raises(CheckpointError, match="no metadata of a distributed checkpoint"):
        metadata_from(program, URI)
    assert not hasattr(metadata_file._layout, "stolen")


def test_a_class_that_was_declared_safe_is_taken() -> None:
    content = metadata_bytes(metadata(planner_data={"own": Registered()}))
    with pytest.raises(CheckpointError, match=r"Registered.*add_safe_globals"):
        metadata_from(content, URI)
    with torch.serialization.safe_globals([Registered]):
        assert metadata_from(content, URI).planner_data["own"].epoch == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        pickle.dumps({"state_dict_metadata": {}}),
        pickle.dumps(metadata(storage_data=[1])),
        pickle.dumps(metadata(version=7)),
        pickle.dumps(metadata(state_dict_metadata={3: BytesStorageMetadata()})),
        pickle.dumps(metadata(state_dict_metadata={"w": StorageMeta()}))[:-9],
        pickle.dumps(metadata(storage_data={MetadataIndex("w"): _StorageInfo("a", -1, 2)})),
        pickle.dumps(metadata(storage_data={MetadataIndex("w"): 1})),
        pickle.dumps(metadata(storage_data={"w": _StorageInfo("a", 1, 2)})),
        pickle.dumps(metadata(storage_meta="w")),
        pickle.dumps(metadata(state_dict_metadata={"w": StorageMeta()})),
        pickle.dumps(metadata(state_dict_metadata={"w": TensorStorageMetadata(*SCALAR, [BytesStorageMetadata()])})),  # type: ignore[list-item]
        pickle.dumps(metadata(state_dict_metadata={"w": TensorStorageMetadata(*SCALAR, [NEGATIVE])})),
        pickle.dumps(metadata(storage_data={MetadataIndex("w"): _StorageInfo("a", "1", 2)})),  # type: ignore[arg-type]
    ],
)
def test_what_is_none_is_told_with_its_address(content: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"memory://dcp/step-1/\.metadata: no metadata") as caught:
        metadata_from(content, URI)
    assert caught.value.uri == URI


def test_every_cut_is_an_error() -> None:
    content = metadata_bytes(metadata())
    for length in range(0, len(content), 7):
        with pytest.raises(CheckpointError, match="damaged"):
            metadata_from(content[:length], URI)
