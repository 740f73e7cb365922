"""A type checker takes a writer for a binary file, as what writes files does."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = """
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


def test_a_writer_has_the_type_of_a_binary_file(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "empty.ini").write_text("[mypy]\n")
    answer, errors, status = api.run(
        ["--strict", "--config-file", str(tmp_path / "empty.ini"), str(tmp_path / "program.py")]
    )
    assert status == 0, answer + errors
