"""Writing one file of a distributed checkpoint: its items one after another, from where they lie or by the host."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import torch
from torch.distributed.checkpoint._extension import StreamTransformExtension
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from torchbucket.checkpoint.archive import holds_elements, lay_out
from torchbucket.checkpoint.read_back import SUM, SummingFile
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.item_layout import check_memory, tensor_layout
from torchbucket.dcp.manifest import FileRecord
from torchbucket.store.http.checksums import Checksum, combined
from torchbucket.store.owned_memory import view_of
from torchbucket.store.thread_pool import ThreadPool

__all__ = ["WrittenItem", "write_file"]

_PICKLE_PROTOCOL: Final = torch.serialization.DEFAULT_PROTOCOL


@dataclass(frozen=True)
class WrittenItem(WriteResult):
    """What PyTorch wants to know of an item that was written, and what the manifest says of its file."""

    file: FileRecord


def write_file(
    directory: CheckpointDirectory,
    name: str,
    items: Sequence[WriteItem],
    planner: SavePlanner,
    extensions: Sequence[StreamTransformExtension] = (),
) -> list[WrittenItem]:
    """Write items to a file.

    Args:
        directory: the checkpoint.
        name: the file's path below it.
        items: what to write, in this order but for plain values, which come first.
        planner: gives their content.
        extensions: what transforms each item on its way.

    Raises:
        StoreError: the write failed, and there is no such file.
    """
    items = sorted(items, key=lambda item: item.type != WriteItemType.BYTE_IO)
    if extensions:
        return _stream(directory, name, items, planner, extensions)
    contents: list[list[memoryview]] = []
    for item in items:
        found = _in_memory(_content(item, planner, directory, name))
        if found is None:
            return _stream(directory, name, items, planner, ())
        contents.append(found)
    with ThreadPool(1, thread_name_prefix="torchbucket-sum") as thread:
        summed = thread.submit(lambda: list(map(SUM.of, contents)))
        info = directory.store.write_from(directory.key(name), [piece for content in contents for piece in content])
    lengths = [sum(map(len, content)) for content in contents]
    return _written(name, items, list(zip(lengths, summed.result(), strict=True)), info.version, None)


def _content(item: WriteItem, planner: SavePlanner, directory: CheckpointDirectory, name: str) -> Any:
    """What the planner has of an item: a tensor or the bytes of a value."""
    data = planner.resolve_data(item)
    if isinstance(data, torch.Tensor):
        data = data.detach()
        check_memory(data, directory.file_uri(name), item.index.fqn)
    return data


def _in_memory(data: torch.Tensor | io.BytesIO) -> list[memoryview] | None:
    """The bytes of an item from where they lie; None where they must be copied first."""
    if isinstance(data, io.BytesIO):
        return [data.getbuffer()]
    if not holds_elements(data):
        return None
    layout = tensor_layout(data)
    if layout is None:
        return None
    if not layout.payload_bytes:
        return [memoryview(layout.head)]
    return [memoryview(layout.head), view_of(data, data.data_ptr(), data.nbytes), memoryview(layout.tail)]


def _stream(
    directory: CheckpointDirectory,
    name: str,
    items: Sequence[WriteItem],
    planner: SavePlanner,
    extensions: Sequence[StreamTransformExtension],
) -> list[WrittenItem]:
    """Write items one after another; the parts of earlier ones are sent while later ones are copied to the host."""
    sums: list[tuple[int, Checksum]] = []
    descriptors: list[str] = []
    with directory.store.open_writer(directory.key(name)) as writer:
        for item in items:
            file = SummingFile(writer)
            target, descriptors = _transformed(file, extensions)
            _write_item(_content(item, planner, directory, name), target)
            target.close()
            sums.append((file.size_bytes, Checksum(SUM, file.value)))
    return _written(name, items, sums, writer.info.version, descriptors if extensions else None)


def _write_item(data: torch.Tensor | io.BytesIO, target: Any) -> None:
    if isinstance(data, io.BytesIO):
        target.write(data.getbuffer())
        return
    tensor = data.cpu()
    if tensor.layout is torch.strided and tensor.untyped_storage().nbytes() != tensor.nbytes:
        tensor = tensor.clone()  # Else all that it is a view of would be saved.
    archive = lay_out(tensor, _PICKLE_PROTOCOL)
    if archive is None:
        torch.save(tensor, target)
    else:
        for piece in archive.views():
            target.write(piece)


def _transformed(file: Any, extensions: Sequence[StreamTransformExtension]) -> tuple[Any, list[str]]:
    target: Any = _LeftOpen(file)
    for extension in extensions:
        target = extension.transform_to(target)
    return target, [extension.get_descriptor() for extension in reversed(extensions)]


def _written(
    name: str,
    items: Iterable[WriteItem],
    sums: Sequence[tuple[int, Checksum]],
    version: str | None,
    descriptors: list[str] | None,
) -> list[WrittenItem]:
    whole = combined(SUM, ((value, length) for length, value in sums))
    record = FileRecord(
        size_bytes=sum(length for length, _ in sums),
        crc64nvme=SUM.text(0) if whole is None else whole.text,
        version=version,
        items=tuple((length, value.text) for length, value in sums),
    )
    results = []
    offset = 0
    for item, (length, _) in zip(items, sums, strict=True):
        place = _StorageInfo(name, offset, length, descriptors)
        results.append(WrittenItem(index=item.index, size_in_bytes=length, storage_data=place, file=record))
        offset += length
    return results


class _LeftOpen(io.BufferedIOBase, BinaryIO):
    """A file for one item: closing it leaves the file open for the next."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any, /) -> int:
        """Write all of it."""
        return self._file.write(data)
