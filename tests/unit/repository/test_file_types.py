"""To a type checker a reader and a writer are binary files, for whatever reads and writes files."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

READER = """
import io
import tarfile
import zipfile
from typing import BinaryIO

import torch
from PIL import Image

from torchbucket import ObjectReader


def file(reader: BinaryIO) -> bytes:
    return reader.read()


def use(reader: ObjectReader) -> str:
    torch.load(reader, weights_only=True)
    Image.open(reader)
    zipfile.ZipFile(reader)
    tarfile.open(fileobj=reader)
    file(reader)
    with reader as same:
        key: str = same.key
    return key + io.TextIOWrapper(reader).read()
"""

WRITER = """
import io
import pickle
import zipfile
from typing import BinaryIO

import torch

from torchbucket import open_store


def file(writer: BinaryIO) -> None: ...


with open_store("memory://m").open_writer("k", size_hint=5) as writer:
    torch.save({}, writer)
    pickle.dump({}, writer)
    zipfile.ZipFile(writer, "w")
    io.TextIOWrapper(writer)
    file(writer)
    size: int = writer.write(memoryview(b"v"))
version: str | None = writer.info.version
"""

WRONG = "from torchbucket import ObjectReader\n\n\ndef use(reader: ObjectReader) -> int:\n    return reader.key\n"


def test_readers_and_writers_have_the_types_of_binary_files(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    files = [tmp_path / name for name in ("reader.py", "writer.py", "wrong.py")]
    for path, text in zip(files, (READER, WRITER, WRONG), strict=True):
        path.write_text(text)
    # With the settings, strict ones, and the cache of `make types`: without it this takes ten times as long.
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    answer, errors, status = api.run([*settings, *map(str, files)])
    assert status == 1, "the program that is wrong passes: nothing is checked"
    assert errors == ""
    (said,) = [line for line in answer.splitlines() if ": error:" in line]
    assert "wrong.py" in said, answer
