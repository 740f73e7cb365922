"""The programs that a reader is for: images, archives, tensors; with the body in memory and fetched in ranges."""

from __future__ import annotations

import csv
import io
import tarfile
import zipfile

import pytest
import torch
from PIL import Image

from torchbucket import MapDataset
from torchbucket.store import open_store

FETCH = pytest.mark.parametrize("fetch", ["whole", "lazy"])


def read_with(transform, body: bytes, fetch):
    open_store("memory://reader-users").write("object", body)
    return MapDataset.from_objects(["memory://reader-users/object"], transform=transform, fetch=fetch)[0]


@FETCH
def test_pil(fetch):
    body = io.BytesIO()
    Image.new("RGB", (300, 200), (10, 200, 30)).save(body, "PNG")
    image = read_with(lambda reader: Image.open(reader), body.getvalue(), fetch)
    # PIL decodes when the pixels are first wanted, after `transform` has returned: the reader is still open.
    assert image.size == (300, 200)
    assert image.getpixel((5, 5)) == (10, 200, 30)


@FETCH
def test_torch_load(fetch):
    tensors = {"weight": torch.arange(300_000, dtype=torch.float32), "step": 7}
    body = io.BytesIO()
    torch.save(tensors, body)
    loaded = read_with(lambda reader: torch.load(reader, weights_only=True), body.getvalue(), fetch)
    assert loaded["step"] == 7
    assert torch.equal(loaded["weight"], tensors["weight"])


@FETCH
def test_zipfile(fetch):
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(20):
            archive.writestr(f"{index}.txt", str(index) * 10_000)

    def transform(reader):
        with zipfile.ZipFile(reader) as archive:
            assert archive.testzip() is None
            return archive.read("7.txt")

    assert read_with(transform, body.getvalue(), fetch) == b"7" * 10_000
    with pytest.raises(zipfile.BadZipFile):
        read_with(zipfile.ZipFile, b"no archive", fetch)


@FETCH
@pytest.mark.parametrize("mode", ["r:", "r:gz", "r|gz", "r:*"])
def test_tarfile(fetch, mode):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz" if "gz" in mode else "w:") as archive:
        for index in range(20):
            content = bytes([index]) * 5_000
            member = tarfile.TarInfo(f"{index}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    def transform(reader):
        with tarfile.open(fileobj=reader, mode=mode) as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}

    assert read_with(transform, body.getvalue(), fetch) == {f"{i}.bin": bytes([i]) * 5_000 for i in range(20)}


@FETCH
def test_text(fetch):
    rows = [["name", "label"], *([f"ä{index}", str(index % 10)] for index in range(5_000))]
    text = io.StringIO()
    csv.writer(text).writerows(rows)

    def transform(reader):
        return list(csv.reader(io.TextIOWrapper(reader, encoding="utf-8", newline="")))

    assert read_with(transform, text.getvalue().encode(), fetch) == rows
    assert read_with(list, b"one\ntwo\n\nlast", fetch) == [b"one\n", b"two\n", b"\n", b"last"]


@FETCH
def test_buffered_reader_and_array_memory(fetch):
    body = torch.arange(1000, dtype=torch.int64).numpy().tobytes()

    def transform(reader):
        target = torch.zeros(1000, dtype=torch.int64)
        assert reader.readinto(target.numpy()) == len(body)
        reader.seek(0)
        assert io.BufferedReader(reader).read(16) == body[:16]
        return target

    assert torch.equal(read_with(transform, body, fetch), torch.arange(1000))


def test_the_default_hands_a_whole_body_on_without_a_copy():
    store = open_store("memory://reader-users")
    store.write("object", b"x" * 1000)
    body = store.read("object").data
    assert MapDataset.from_objects(["memory://reader-users/object"])[0] is body
