"""A bare libcurl loop that moves a state's bytes: no serialising, no checks, no retries. The ceiling, not a contestant.

An object is 64 bytes with the lengths of what follows, a description of the state without its numbers, and the numbers
of each tensor, all padded to 64 bytes. They are sent from the tensors' own memory, and read into one piece of it.
"""

from __future__ import annotations

import io
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any, Final

import torch
from torch.utils._pytree import tree_flatten, tree_map

from bucketbench.clients.addresses import Requests, headers_of
from bucketbench.clients.protocol import Target
from bucketbench.clients.transfer_loop import Fetch, Send, TransferLoop

__all__ = ["Raw"]

_ALIGNMENT: Final = 64
_LENGTHS: Final = struct.Struct("<QQ")  # of the description, and of the whole object


class Raw:
    """Parts and ranges over one bare libcurl loop.

    Args:
        transfers: how many at once.
        part_bytes: length of a part and of a range.
    """

    def __init__(self, *, transfers: int, part_bytes: int) -> None:
        self._transfers = transfers
        self._part_bytes = part_bytes

    def checkpoints(self, target: Target) -> _Checkpoints:
        """The checkpoints below the target's prefix."""
        return _Checkpoints(target, transfers=self._transfers, part_bytes=self._part_bytes)


class _Checkpoints:
    def __init__(self, target: Target, *, transfers: int, part_bytes: int) -> None:
        self._prefix = target.prefix
        self._part_bytes = part_bytes
        self._requests = Requests(target)
        self._loop = TransferLoop(
            transfers=transfers, ca_bundle=target.ca_bundle, headers=headers_of(target, writes=True)
        )

    def save(self, state: Any, key: str) -> None:
        name = self._prefix + key
        views = _layout(state)
        parts = list(_cut(views, self._part_bytes))
        created = self._send("POST", self._requests.url("create_multipart_upload", name))
        upload_id = _text(created, "UploadId")
        tags: list[list[bytes]] = [[] for _ in parts]
        sends = (
            Send(
                method="PUT",
                url=self._requests.url("upload_part", name, upload_id=upload_id, part_number=number),
                size_bytes=sum(map(len, part)),
                read=_Body(part).read,
                write=_ignored,
                header=headers.append,
            )
            for number, (part, headers) in enumerate(zip(parts, tags, strict=True), start=1)
        )
        for _ in self._loop.run(sends):
            pass
        document = ElementTree.Element("CompleteMultipartUpload")
        for number, headers in enumerate(tags, start=1):
            part_element = ElementTree.SubElement(document, "Part")
            ElementTree.SubElement(part_element, "PartNumber").text = str(number)
            ElementTree.SubElement(part_element, "ETag").text = _etag(headers)
        url = self._requests.url("complete_multipart_upload", name, upload_id=upload_id)
        _text(self._send("POST", url, ElementTree.tostring(document)), "ETag")  # an error may come with a status of 200

    def load(self, key: str) -> Any:
        url = self._requests.url("get_object", self._prefix + key)
        first: list[bytes] = []
        for _ in self._loop.run([Fetch(url=url, byte_range=f"0-{self._part_bytes - 1}", write=first.append)]):
            pass
        head = b"".join(first)
        described_bytes, total_bytes = _LENGTHS.unpack_from(head)
        memory = torch.empty(total_bytes, dtype=torch.uint8)
        content = memory.numpy().data
        content[: len(head)] = head
        starts = range(len(head), total_bytes, self._part_bytes)
        windows = [_Window(content[start : start + self._part_bytes]) for start in starts]
        ranges = (
            Fetch(url=url, byte_range=f"{start}-{start + len(window.view) - 1}", write=window.write)
            for start, window in zip(starts, windows, strict=True)
        )
        for number in self._loop.run(ranges):
            windows[number].check()
        return _restored(memory, described_bytes)

    def remove(self, key: str) -> None:
        self._send("DELETE", self._requests.url("delete_object", self._prefix + key), expected=204)

    def close(self) -> None:
        """The connections end with the process."""

    def _send(self, method: str, url: str, body: bytes = b"", *, expected: int = 200) -> bytes:
        answer: list[bytes] = []
        request = Send(
            method=method,
            url=url,
            size_bytes=len(body),
            read=_Body([memoryview(body)]).read,
            write=answer.append,
            header=_ignored,
            expected=expected,
        )
        for _ in self._loop.run([request]):
            pass
        return b"".join(answer)


class _Body:
    """Gives out pieces of memory, one after another."""

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self._pieces = list(reversed(pieces))

    def read(self, size: int) -> bytes:
        taken: list[memoryview] = []
        while size and self._pieces:
            piece = self._pieces.pop()
            if len(piece) > size:
                self._pieces.append(piece[size:])
            taken.append(piece[:size])
            size -= len(taken[-1])
        return b"".join(taken)


class _Window:
    """Fills a part of memory from its start."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self._filled_bytes = 0

    def write(self, piece: bytes) -> None:
        stop = self._filled_bytes + len(piece)
        self.view[self._filled_bytes : stop] = piece
        self._filled_bytes = stop

    def check(self) -> None:
        if self._filled_bytes != len(self.view):
            raise OSError(f"a range of {len(self.view)} bytes was answered with {self._filled_bytes}")


def _layout(state: Any) -> list[memoryview]:
    """The object's bytes as they lie in memory."""
    leaves, _ = tree_flatten(state)
    tensors = [leaf.detach().contiguous() for leaf in leaves if isinstance(leaf, torch.Tensor)]
    described = io.BytesIO()
    # Tensors without numbers: torch writes their shapes and types, and no memory.
    torch.save(tree_map(_on_meta, state), described)
    views = [memoryview(described.getvalue())]
    views += [tensor.view(-1).view(torch.uint8).numpy().data for tensor in tensors if tensor.numel()]
    padded: list[memoryview] = []
    for view in views:
        padded += [view, memoryview(bytes(-len(view) % _ALIGNMENT))]
    total_bytes = _ALIGNMENT + sum(map(len, padded))
    lengths = _LENGTHS.pack(len(views[0]), total_bytes).ljust(_ALIGNMENT, b"\0")
    return [memoryview(lengths), *padded]


def _on_meta(leaf: Any) -> Any:
    return leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf


def _restored(memory: torch.Tensor, described_bytes: int) -> Any:
    """The state, its tensors views of the memory."""
    described = bytes(memory[_ALIGNMENT : _ALIGNMENT + described_bytes].numpy())
    position = _ALIGNMENT + _padded(described_bytes)

    def placed(leaf: Any) -> Any:
        nonlocal position
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if not leaf.numel():
            return torch.empty(leaf.shape, dtype=leaf.dtype)
        length = leaf.numel() * leaf.element_size()
        numbers = memory[position : position + length].view(leaf.dtype).view(leaf.shape)
        position += _padded(length)
        return numbers

    return tree_map(placed, torch.load(io.BytesIO(described), weights_only=True))


def _padded(length: int) -> int:
    return length + -length % _ALIGNMENT


def _cut(views: Sequence[memoryview], part_bytes: int) -> Iterator[list[memoryview]]:
    """The views as parts of equal length, the last one shorter."""
    part: list[memoryview] = []
    missing = part_bytes
    for view in views:
        while len(view) >= missing:
            yield [*part, view[:missing]]
            part, view, missing = [], view[missing:], part_bytes
        if len(view):
            part.append(view)
            missing -= len(view)
    if part:
        yield part


def _text(document: bytes, name: str) -> str:
    """The text of an element of an answer, which has one of that name."""
    found = re.search(rf"<{name}>([^<]+)</{name}>", document.decode())
    if found is None:
        raise OSError(f"an answer has no {name}: {document[:200]!r}")
    return unescape(found[1])


def _etag(headers: Sequence[bytes]) -> str:
    for line in headers:
        found = re.fullmatch(rb"etag:\s*(\S+)\s*", line, re.IGNORECASE)
        if found is not None:
            return found[1].decode("ascii")
    raise OSError("a part was answered without an ETag")


def _ignored(piece: bytes) -> None:
    """Take no notice."""
