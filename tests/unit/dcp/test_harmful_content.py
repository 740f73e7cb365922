"""What is damaged, or was made to harm, is refused with its name and address, before it can do anything."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import pickletools
import struct
import zipfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from saved_states import emptied, same
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from torchbucket.dcp import BucketStorageReader, BucketStorageWriter
from torchbucket.store import open_store

STORE = open_store("memory://harm")
_numbers = itertools.count()


def new_uri() -> str:
    return f"memory://harm/run/step-{next(_numbers)}"


def save(state: Any, uri: str, **options: Any) -> None:
    dcp.save(state, storage_writer=BucketStorageWriter(uri), no_dist=True, **options)


def load(state: Any, uri: str, **options: Any) -> Any:
    into = emptied(state)
    dcp.load(into, storage_reader=BucketStorageReader(uri, **options), no_dist=True)
    return into


class Runs:
    """Would run a command where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("false",)


def test_a_value_that_may_run_code_is_not_unpickled() -> None:
    uri = new_uri()
    save({"value": Runs()}, uri)
    with pytest.raises(dcp.CheckpointException, match=r"'value' names posix\.system"):
        load({"value": None}, uri)
    assert load({"value": None}, uri, weights_only=False) == {"value": 256}


class Stored(DefaultSavePlanner):
    """Stores these bytes as the only value."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content

    def resolve_data(self, write_item: Any) -> Any:
        return io.BytesIO(self.content)


def archive_of(program: bytes) -> bytes:
    """What ``torch.save`` would write whose pickle is this one."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", "3")
    return file.getvalue()


def test_a_value_cannot_change_the_classes_that_it_names() -> None:
    """A pickle sets attributes of whatever it has got hold of, of what is allowed, too."""
    name = b"most_common"
    program = b"\x80\x02ccollections\nCounter\nN}X" + struct.pack("<I", len(name)) + name + b"cbuiltins\nset\ns\x86b."
    pickletools.dis(program, out=io.StringIO())  # it is one
    before, uri = Counter.most_common, new_uri()
    save({"value": 1}, uri, planner=Stored(archive_of(program)))
    with pytest.raises(dcp.CheckpointException, match="'value' cannot be unpacked"):
        load({"value": None}, uri)
    assert Counter.most_common is before


@pytest.mark.parametrize("content", [archive_of(pickle.dumps([b"late"], 4)), archive_of(b"."), b"", b"PK\x03\x04"])
def test_a_value_that_is_damaged_is_told_with_its_name_and_address(content: bytes) -> None:
    uri = new_uri()
    save({"value": 1}, uri, planner=Stored(content))
    with pytest.raises(dcp.CheckpointException, match=r"__0_0\.distcp: 'value' cannot be unpacked"):
        load({"value": None}, uri)


def test_a_tensor_that_is_damaged_is_told_with_its_name_and_address() -> None:
    uri = new_uri()
    save({"weight": torch.ones(3)}, uri)
    key = uri.removeprefix("memory://harm/") + "/__0_0.distcp"
    content = bytearray(STORE.read(key).data)
    content[40:200] = bytes(160)
    STORE.write(key, content)
    STORE.delete(uri.removeprefix("memory://harm/") + "/.torchbucket.json")  # which would tell before it is read
    with pytest.raises(dcp.CheckpointException, match=r"__0_0\.distcp: 'weight' cannot be unpacked"):
        load({"weight": torch.ones(3)}, uri)


def test_a_size_that_is_made_up_takes_no_memory() -> None:
    """What the archive itself says is what is read."""
    uri, state = new_uri(), {"weight": torch.ones(3)}
    save(state, uri)

    def enlarge(metadata: Any) -> None:
        metadata.state_dict_metadata["weight"].chunks[0].sizes = torch.Size([1 << 50])

    change_metadata(uri, enlarge)
    assert same(load(state, uri), state)


def change_metadata(uri: str, change: Callable[[Any], None]) -> None:
    """Write metadata that somebody has tampered with."""
    key = uri.removeprefix("memory://harm/") + "/.metadata"
    metadata = pickle.loads(STORE.read(key).data)
    change(metadata)
    STORE.write(key, pickle.dumps(metadata))


@pytest.mark.parametrize("name", ["../other/__0_0.distcp", "/etc/passwd", "a//b", "s3://other/key"])
def test_a_name_that_leads_out_of_the_checkpoint_is_refused(name: str) -> None:
    uri = new_uri()
    save({"weight": torch.ones(3)}, uri)

    def rename(metadata: Any) -> None:
        for place in metadata.storage_data.values():
            place.relative_path = name

    change_metadata(uri, rename)
    with pytest.raises(dcp.CheckpointException, match="no path below the checkpoint"):
        load({"weight": torch.ones(3)}, uri)


@pytest.mark.parametrize("size_bytes", [0, 8])
@pytest.mark.parametrize("view", [slice(None), slice(None, None, 2)])
def test_memory_that_was_given_back_is_neither_read_nor_written(size_bytes: int, view: slice) -> None:
    def freed() -> torch.Tensor:
        tensor = torch.ones(8)[view]
        tensor.untyped_storage().resize_(size_bytes)
        return tensor

    uri = new_uri()
    with pytest.raises(dcp.CheckpointException, match="the tensor 'weight' has the shape"):
        save({"weight": freed()}, uri)
    save({"weight": torch.ones(8)[view]}, uri)
    with pytest.raises(dcp.CheckpointException, match="the tensor 'weight' has the shape"):
        dcp.load({"weight": freed()}, storage_reader=BucketStorageReader(uri), no_dist=True)
