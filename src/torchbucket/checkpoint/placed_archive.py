"""Archives whose storages are in their tensors' memory already, handed to torch's unpickler as they are."""

from __future__ import annotations

import inspect
import os
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, TypeAlias

import torch

from torchbucket.errors import CheckpointError

__all__ = [
    "LeavesCpuError",
    "MapLocation",
    "PlacedArchive",
    "can_place_storages",
    "looks_at_no_data",
    "new_storage",
    "reads_no_data",
    "stays_on_cpu",
    "unpickle",
]

MapLocation: TypeAlias = Callable[[Any, str], Any] | torch.device | str | Mapping[str, str] | None
"""Where tensors go, as ``torch.load`` takes it."""

_torch: Final[Any] = torch  # for what has no types

# A pickle of protocol 2, which torch.save writes, names a function or class in no other way than by the first of these;
# the second takes out those that make tensors of storages, or nothing of them, and never look into one.
_GLOBAL: Final = re.compile(rb"c[^\x00-\x1f]+\n[^\x00-\x1f]+\n")
_BLIND: Final = re.compile(
    "|".join(
        re.escape(f"c{module}\n{name}\n")
        for module, name in (
            ("collections", "OrderedDict"),
            ("torch", "device"),
            ("torch.storage", "UntypedStorage"),
            *(("torch._utils", f"_rebuild_{kind}") for kind in ("tensor", "tensor_v2", "tensor_v3")),
            *(("torch._utils", f"_rebuild_{kind}") for kind in ("parameter", "parameter_with_state")),
            ("torch._utils", "_rebuild_meta_tensor_no_storage"),
            *(("torch", name) for name in vars(torch) if name.endswith("Storage")),
            *(("torch", name) for name, value in vars(torch).items() if isinstance(value, torch.dtype)),
        )
    ).encode()
)
_PROTOCOL_2: Final = b"\x80\x02"


class LeavesCpuError(Exception):
    """A storage is to be copied to another device, which must wait until its bytes are there."""


class PlacedArchive(torch._C.PyTorchFileReader):
    """torch's own reader of an archive, which takes storages from memory instead of its file.

    Args:
        file: the archive; records of storages that are not given are read from it.
        storages: the bytes of each storage by its record's name, as tensors of dtype uint8; handed out once.
        uri: the archive's address, for messages.
    """

    def __init__(self, file: BinaryIO, storages: dict[str, torch.Tensor], uri: str) -> None:
        super().__init__(file)
        self._storages = storages
        self._uri = uri

    def get_storage_from_record(self, name: str, size_bytes: int, kind: Any) -> torch.Tensor:
        """The bytes of a storage."""
        storage = self._storages.pop(name, None)
        if storage is not None:
            if len(storage) != size_bytes:
                raise CheckpointError(
                    f"{self._uri}: the record {name} has {len(storage)} bytes and the pickle says {size_bytes}; the "
                    "checkpoint is damaged or was altered: load another one",
                    uri=self._uri,
                )
            return storage
        if not size_bytes:
            return new_storage(0)[0]  # which, as all of them, cannot grow: a tensor beyond it is an error
        read: torch.Tensor = super().get_storage_from_record(name, size_bytes, kind)
        return read


def new_storage(size_bytes: int) -> tuple[torch.Tensor, memoryview]:
    """New memory of a CPU tensor, of dtype uint8 and any content, and a writable view that keeps it alive."""
    # A storage by itself, since `torch.empty` fills its memory where deterministic algorithms are asked for.
    storage = _torch.UntypedStorage(size_bytes, device="cpu")
    tensor: torch.Tensor = _torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    return tensor, tensor.numpy().data


def can_place_storages() -> bool:
    """Whether torch unpickles in the way that is known, of 2.6 to 2.13, and nothing intercepts what it does."""
    load = getattr(torch.serialization, "_load", None)
    if load is None or os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") or _intercepting_modes("dispatch"):
        return False
    return list(inspect.signature(load).parameters)[:3] == ["zip_file", "map_location", "pickle_module"]


def reads_no_data(map_location: MapLocation) -> bool:
    """Whether torch makes tensors without content, of the device ``meta`` or fake ones."""
    if map_location == "meta" or (isinstance(map_location, torch.device) and map_location.type == "meta"):
        return True
    skips = getattr(getattr(torch.serialization, "_serialization_tls", None), "skip_data", False)
    return bool(skips) or torch._guards.detect_fake_mode(None) is not None


def looks_at_no_data(file: BinaryIO) -> bool:
    """Whether unpickling leaves the content of every storage alone, so that it may be done before that has arrived."""
    try:
        archive: Any = torch._C.PyTorchFileReader(file)
        pickled: bytes = archive.get_record("data.pkl")
        is_native = archive.has_record("byteorder") and archive.get_record("byteorder") == sys.byteorder.encode()
    except RuntimeError:
        return False  # It is damaged, or what was read of it so far.
    seeing = not pickled.startswith(_PROTOCOL_2) or _GLOBAL.search(_BLIND.sub(b"\0", pickled)) is not None
    return is_native and not seeing and not _intercepting_modes("function")


def stays_on_cpu(map_location: MapLocation) -> Callable[[Any, str], Any] | None:
    """A ``map_location`` that does what the given one does as long as storages stay on the CPU.

    For one that is to go elsewhere it raises :class:`LeavesCpuError`, or what torch raises where there is no such
    device. None where the given one is a function, which may look at the storage.
    """
    if callable(map_location):
        return None
    moves = map_location if isinstance(map_location, Mapping) else {}
    fixed = str(map_location) if isinstance(map_location, str | torch.device) else None

    def restore(storage: Any, location: str) -> Any:
        target = fixed or moves.get(location, location)
        if target != "cpu":
            _torch.serialization.default_restore_location(_torch.UntypedStorage(0, device="cpu"), target)
            raise LeavesCpuError
        return storage

    return restore


def unpickle(archive: PlacedArchive, map_location: MapLocation, *, weights_only: bool) -> Any:
    """The object in an archive, as ``torch.load`` makes it."""
    module = torch._weights_only_unpickler if weights_only else pickle
    return _torch.serialization._load(archive, map_location, module, encoding="utf-8")


def _intercepting_modes(kind: str) -> bool:
    """Whether a ``TorchDispatchMode`` or ``TorchFunctionMode`` sees, and may read, each tensor that is made."""
    count = getattr(torch._C, f"_len_torch_{kind}_stack", None)
    return count is None or count() > 0
