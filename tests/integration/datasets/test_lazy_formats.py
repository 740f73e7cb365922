"""Formats whose readers jump about, on lazy readers: the right content, and few requests for a small part."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import MapDataset, StoreConfig
from torchbucket.store import open_store

MIB = 1 << 20


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


def read_with(testbed, name: str, body: bytes, transform) -> tuple[object, int, int]:
    """What ``transform`` makes of the object, and the requests and bytes that it cost."""
    # Without second requests, for late reads, which would count.
    config = StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True, hedge_share=0)
    open_store("s3://data", config).write(name, body)
    dataset = MapDataset.from_prefix(f"s3://data/{name}", config=config, transform=transform, fetch="lazy")
    testbed.reset_counts()
    found = dataset[0]
    counts = testbed.counts()
    return found, sum(counts["requests"].values()), counts["bytes_out"]


def test_a_tensor_of_a_safetensors_file(testbed):
    """Header length, header, one tensor: what reading a part of such a file takes."""
    from safetensors.torch import save

    tensors = {f"layer.{index}": torch.full((256, 1024), float(index)) for index in range(32)}

    def one_tensor(reader):
        (length,) = struct.unpack("<Q", reader.read(8))
        entry = json.loads(reader.read(length))["layer.17"]
        start, stop = entry["data_offsets"]
        reader.seek(8 + length + start)
        data = torch.empty(entry["shape"])
        assert reader.readinto(data.numpy()) == stop - start
        return data

    found, requests, bytes_out = read_with(testbed, "model.safetensors", save(tensors), one_tensor)
    assert torch.equal(found, tensors["layer.17"])
    assert requests <= 3
    assert bytes_out < 2 * MIB


def test_the_directory_of_a_zip_file(testbed):
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for index in range(200):
            archive.writestr(f"{index:03}.bin", bytes([index]) * (MIB // 8))

    def names(reader):
        with zipfile.ZipFile(reader) as archive:
            return archive.namelist()

    found, requests, bytes_out = read_with(testbed, "many.zip", body.getvalue(), names)
    assert found == [f"{index:03}.bin" for index in range(200)]
    assert requests <= 4
    assert bytes_out < MIB


def test_the_size_of_an_image(testbed):
    pixels = np.random.default_rng(0).integers(0, 256, (1500, 1500, 3), np.uint8)
    body = io.BytesIO()
    Image.fromarray(pixels).save(body, "png")

    def size(reader):
        with Image.open(reader) as image:
            return image.size

    found, requests, bytes_out = read_with(testbed, "image.png", body.getvalue(), size)
    assert found == (1500, 1500)
    assert requests <= 2
    assert bytes_out < MIB < len(body.getvalue())


def test_all_of_an_image(testbed):
    pixels = np.random.default_rng(0).integers(0, 256, (700, 900, 3), np.uint8)
    body = io.BytesIO()
    Image.fromarray(pixels).save(body, "png")
    found, requests, _ = read_with(testbed, "whole.png", body.getvalue(), lambda reader: np.array(Image.open(reader)))
    assert np.array_equal(found, pixels)
    assert requests <= 12


def test_rows_of_an_array(testbed):
    rows = np.arange(4_000_000, dtype=np.int64).reshape(4000, 1000)
    body = io.BytesIO()
    np.save(body, rows)

    def some_rows(reader):
        assert np.lib.format.read_magic(reader) == (1, 0)
        shape, _, dtype = np.lib.format.read_array_header_1_0(reader)
        reader.seek(3000 * shape[1] * dtype.itemsize, io.SEEK_CUR)
        return np.frombuffer(reader.read(10 * shape[1] * dtype.itemsize), dtype).reshape(10, -1)

    found, requests, bytes_out = read_with(testbed, "rows.npy", body.getvalue(), some_rows)
    assert np.array_equal(found, rows[3000:3010])
    assert requests <= 3
    assert bytes_out < MIB
