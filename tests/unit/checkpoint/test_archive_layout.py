"""Where the storages of an archive are, told from its directory, is where torch reads them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from saved_objects import torch_bytes

from torchbucket.checkpoint.archive_layout import are_where_headers_say, gaps_between, storage_records

LARGE = 5 << 30


def test_small_and_empty_storages() -> None:
    saved = torch_bytes([torch.arange(10), torch.empty(0), torch.ones(33, dtype=torch.uint8), torch.tensor(2.0)])
    records = storage_records(io.BytesIO(saved))
    assert records is not None
    reader = torch._C.PyTorchFileReader(io.BytesIO(saved))
    assert [record.name for record in records] == ["data/0", "data/2", "data/3"]  # an empty one has no place
    assert [record.start for record in records] == [reader.get_record_offset(record.name) for record in records]
    assert [record.stop - record.start for record in records] == [80, 33, 4]
    gaps = [(start, memoryview(saved)[start:stop]) for start, stop in gaps_between(records, len(saved))]
    assert are_where_headers_say(records, gaps)
    moved = [(start, memoryview(bytes(len(memory)))) for start, memory in gaps]
    assert not are_where_headers_say(records, moved)


def test_storages_of_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    with torch._subclasses.FakeTensorMode():
        state = [torch.empty(100), torch.empty(LARGE, dtype=torch.uint8), torch.empty(7), torch.empty(LARGE // 2)]
        with torch.serialization.skip_data(materialize_fake_tensors=True):
            torch.save(state, path)
    reader = torch._C.PyTorchFileReader(str(path))
    with path.open("rb") as file:  # with holes: it takes no room
        records = storage_records(file)
    assert records is not None
    assert [record.stop - record.start for record in records] == [400, LARGE, 28, 2 * LARGE]
    assert [record.start for record in records] == [reader.get_record_offset(record.name) for record in records]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_no_archive_of_torch() -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    saved = torch_bytes([torch.ones(100)])
    for content in (file.getvalue(), b"", b"PK\x03\x04", saved[:-1], saved[: len(saved) // 2]):
        assert storage_records(io.BytesIO(content)) is None
