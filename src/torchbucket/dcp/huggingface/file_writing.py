"""Writing one safetensors file of a distributed checkpoint: tensors from where they lie, or one by one by the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem

from torchbucket.checkpoint.archive import holds_elements
from torchbucket.checkpoint.read_back import SUM
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.file_writing import WrittenItem
from torchbucket.dcp.huggingface.pieces import PieceOfTensor, sharding_texts
from torchbucket.dcp.item_layout import check_memory
from torchbucket.dcp.manifest import FileRecord
from torchbucket.errors import CheckpointError
from torchbucket.safetensors.header import header_bytes, quoted
from torchbucket.safetensors.tensors import check_tensor, element_type, memory_of, shape_in_file
from torchbucket.store.http.checksums import Checksum, combined
from torchbucket.store.thread_pool import ThreadPool

__all__ = ["piece_of", "write_tensors"]


@dataclass(frozen=True, slots=True)
class _Entry:
    item: WriteItem
    tensor: torch.Tensor

    @property
    def name(self) -> str:
        return self.item.index.fqn

    @property
    def is_in_memory(self) -> bool:
        """Whether its elements lie in the host's memory as a file has them."""
        return holds_elements(self.tensor) and self.tensor.is_contiguous()

    def memory(self) -> memoryview:
        """Its elements as a file has them, copied where they do not lie so."""
        if self.is_in_memory:
            return memory_of(self.tensor)
        return memory_of(self.tensor.cpu().resolve_conj().resolve_neg().contiguous())


def piece_of(item: WriteItem) -> PieceOfTensor:
    """Which part of a tensor an item of a plan is."""
    data = item.tensor_data
    assert data is not None, "plain values were refused"
    return PieceOfTensor(item.index.fqn, tuple(data.chunk.offsets), tuple(data.size))


def write_tensors(
    directory: CheckpointDirectory, name: str, items: Sequence[WriteItem], planner: SavePlanner, *, sharded: bool
) -> list[WrittenItem]:
    """Write tensors, or parts of them, to a safetensors file.

    Args:
        directory: the checkpoint.
        name: the file's path below it.
        items: what to write, no two of one tensor.
        planner: gives their content.
        sharded: whether the file is to say which parts of which tensors it has.

    Raises:
        ConfigError: a tensor that safetensors cannot hold.
        StoreError: the write failed, and there is no such file.
    """
    uri = directory.file_uri(name)
    entries = [_Entry(item, _tensor(item, planner, uri)) for item in items]
    entries.sort(key=lambda entry: (-element_type(entry.tensor).rank, entry.name))
    header = header_bytes(
        (
            (entry.name, element_type(entry.tensor).name, shape_in_file(entry.tensor), entry.tensor.nbytes)
            for entry in entries
        ),
        sharding_texts(map(piece_of, items)) if sharded else {"format": "pt"},
    )
    key, store = directory.key(name), directory.store
    if all(entry.is_in_memory for entry in entries):
        pieces = [memoryview(header), *(entry.memory() for entry in entries)]
        with ThreadPool(1, thread_name_prefix="torchbucket-sum") as thread:
            summed = thread.submit(lambda: [SUM.of([piece]) for piece in pieces])
            info = store.write_from(key, pieces)
        sums = summed.result()
    else:
        sums = [SUM.of([header])]
        size_bytes = len(header) + sum(entry.tensor.nbytes for entry in entries)
        with store.open_writer(key, size_hint=size_bytes) as writer:
            writer.write(header)
            for entry in entries:
                memory = entry.memory()
                sums.append(SUM.of([memory]))
                writer.write(memory)
        info = writer.info
    lengths = [len(header), *(entry.tensor.nbytes for entry in entries)]
    return _written(name, entries, list(zip(lengths, sums, strict=True)), info.version)


def _tensor(item: WriteItem, planner: SavePlanner, uri: str) -> torch.Tensor:
    data = planner.resolve_data(item)
    if not isinstance(data, torch.Tensor):
        raise CheckpointError(
            f"{uri}: the planner has a {type(data).__name__} for {quoted(item.index.fqn)}, and safetensors hold "
            "tensors alone",
            uri=uri,
        )
    tensor = data.detach()
    check_tensor(item.index.fqn, tensor)
    check_memory(tensor, uri, item.index.fqn)
    return tensor


def _written(
    name: str, entries: Sequence[_Entry], sums: Sequence[tuple[int, Checksum]], version: str | None
) -> list[WrittenItem]:
    whole = combined(SUM, ((value, length) for length, value in sums))
    record = FileRecord(
        size_bytes=sum(length for length, _ in sums),
        crc64nvme=None if whole is None else whole.text,
        version=version,
        items=tuple((length, value.text) for length, value in sums),
    )
    results = []
    offset = sums[0][0]
    for entry, (length, _) in zip(entries, sums[1:], strict=True):
        place = _StorageInfo(name, offset, length)
        results.append(WrittenItem(index=entry.item.index, size_in_bytes=length, storage_data=place, file=record))
        offset += length
    return results
