"""The bytes of a checkpoint without a copy of any tensor: torch's own headers, and the tensors' memory between them."""

from __future__ import annotations

import io
import pickle
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeGuard

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torchbucket.checkpoint.copying import copy_all
from torchbucket.store.owned_memory import view_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

with suppress(ImportError):  # an older torch
    # torch imports this within torch.save. Were a thread in the background the first to do so, a child forked at that
    # moment would inherit an import that is never finished, and wait for it in its own first save.
    import torch.utils.serialization.config

__all__ = ["Archive", "can_lay_out", "holds_elements", "is_plain", "is_whole", "lay_out", "memory_of"]

# What torch lays out without data exactly as with it. Other classes decide for themselves what they are pickled as.
_CLASSES: Final = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_STORAGES: Final = (torch.UntypedStorage, torch.TypedStorage)
_DEVICES: Final = ("cpu", "cuda")


class Archive:
    """What ``torch.save`` would write of an object, in pieces: headers, and the storages themselves.

    The storages live as long as this does, and must not change before it was sent or copied. Of a record of tensors no
    CRC-32 is written (it is 0, as torch's ``set_crc32_options(False)`` leaves all of them); torch never reads it.

    Args:
        pieces: headers and storages, one after another, each storage on whatever device it is.
    """

    def __init__(self, pieces: list[bytearray | torch.UntypedStorage]) -> None:
        self._pieces = pieces
        self.size_bytes = sum(map(_length, pieces))
        self.in_memory = not any(map(_is_on_device, pieces))
        """Whether all of it can be sent from where it lies."""

    def views(self) -> list[memoryview]:
        """The pieces' own memory, where they are ``in_memory``."""
        return [_view(piece) for piece in self._pieces]

    @_disable_current_modes()
    def write_to(self, file: BinaryIO) -> None:
        """Write all of it, copied to the host one piece after another."""
        for piece in self._pieces:
            file.write(_tensor(piece).cpu().numpy().data if _is_on_device(piece) else _view(piece))

    @_disable_current_modes()
    def copy_to(self, memory: memoryview) -> None:
        """Copy all of it to the beginning of flat memory."""
        start = 0
        copies: list[tuple[memoryview, memoryview]] = []
        for piece in self._pieces:
            place = memory[start : start + _length(piece)]
            start += len(place)
            if not len(place):
                continue
            if _is_on_device(piece):
                torch.frombuffer(place, dtype=torch.uint8).copy_(_tensor(piece))
            else:
                copies.append((place, _view(piece)))
        copy_all(copies)


def _length(piece: bytearray | torch.UntypedStorage) -> int:
    return len(piece) if isinstance(piece, bytearray) else piece.nbytes()


def _is_on_device(piece: bytearray | torch.UntypedStorage) -> TypeGuard[torch.UntypedStorage]:
    return not isinstance(piece, bytearray) and piece.device.type != "cpu"


def _view(piece: bytearray | torch.UntypedStorage) -> memoryview:
    """The memory of a piece on the host."""
    if isinstance(piece, bytearray):
        return memoryview(piece)
    return memory_of(piece)


def memory_of(storage: torch.UntypedStorage) -> memoryview:
    """The memory of a storage on the host, at a tenth of what a tensor of it would cost."""
    return view_of(storage, storage.data_ptr(), storage.nbytes())


def _tensor(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def can_lay_out() -> bool:
    """Whether this torch can lay out an archive without its data."""
    return hasattr(torch.serialization, "skip_data")


def lay_out(obj: Any, pickle_protocol: int) -> Archive | None:
    """Lay an object out as ``torch.save`` would, without reading any tensor.

    None where this torch cannot, or where it holds a tensor that only ``torch.save`` knows how to write: a subclass, a
    quantized or nested one, one on another device. Raises what ``torch.save`` would.
    """
    if not can_lay_out():
        return None
    storages: dict[str, torch.UntypedStorage] = {}
    layout = _Layout()
    try:
        with torch.serialization.skip_data():
            torch.save(obj, layout, pickle_module=_recording(storages), pickle_protocol=pickle_protocol)
    except _NeedsData:
        return None
    contents = [storage for storage in storages.values() if storage.nbytes()]
    if [storage.nbytes() for storage in contents] != layout.skipped_bytes:
        return None  # A torch that orders its records otherwise.
    return Archive(_joined(layout.headers, contents))


class _NeedsData(Exception):  # noqa: N818  # no error: it says which way to go
    """The object holds what cannot be laid out without its data."""


class _Layout(io.BufferedIOBase, BinaryIO):
    """Takes what torch writes: headers by ``write``, and by ``seek`` the length of each storage that it leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.headers = [bytearray()]
        self.skipped_bytes: list[int] = []

    def write(self, data: ReadableBuffer, /) -> int:
        """Add to the header, which is torch's own memory and soon gone."""
        header = self.headers[-1]
        before = len(header)
        header += data
        return len(header) - before

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Note the length of a storage."""
        if whence != io.SEEK_CUR:
            raise io.UnsupportedOperation("torch writes an archive in order")
        self.skipped_bytes.append(offset)
        self.headers.append(bytearray())
        return offset


def _recording(storages: dict[str, torch.UntypedStorage]) -> Any:
    """A stand-in for the module ``pickle`` whose pickler notes each storage, by the name that torch gives it."""

    class Recorder(pickle.Pickler):
        def __init_subclass__(cls) -> None:
            # torch derives its pickler from this one, and names storages by the method that it overrides.
            name_of = cls.persistent_id

            def persistent_id(self: Recorder, obj: Any) -> Any:
                if not isinstance(obj, _STORAGES):  # Asked for every object: most end here.
                    return None
                name = name_of(self, obj)
                if name is not None:
                    storage = obj if isinstance(obj, torch.UntypedStorage) else obj._untyped_storage
                    if storage.device.type not in _DEVICES:
                        raise _NeedsData
                    storages.setdefault(name[2], storage)
                return name

            cls.persistent_id = persistent_id  # type: ignore[method-assign,assignment]

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, torch.Tensor) and not is_plain(obj):
                raise _NeedsData
            return NotImplemented

    return SimpleNamespace(Pickler=Recorder, __name__="pickle")


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether torch writes a tensor without its data exactly as with it."""
    return (
        type(tensor) in _CLASSES and tensor.device.type in _DEVICES and not tensor.is_quantized and not tensor.is_nested
    )


def holds_elements(tensor: torch.Tensor) -> bool:
    """Whether the host's memory of a plain tensor has its elements as they are."""
    return (
        tensor.is_cpu
        and tensor.layout is torch.strided
        and is_plain(tensor)
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether a strided tensor's storage has all of its elements: one that was freed or cut has not, and is overrun."""
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    stop = (int(tensor.storage_offset()) + last + 1) * tensor.element_size()
    return not tensor.numel() or stop <= tensor.untyped_storage().nbytes()


def _joined(headers: list[bytearray], storages: list[torch.UntypedStorage]) -> list[bytearray | torch.UntypedStorage]:
    pieces: list[bytearray | torch.UntypedStorage] = [headers[0]]
    for storage, header in zip(storages, headers[1:], strict=True):
        pieces += (storage, header)
    return pieces
