"""Archives whose storages are in their tensors' memory already, handed to torch's unpickler as they are."""

from __future__ import annotations

import inspect
import os
import pickle
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, TypeAlias

import torch

from torchbucket.errors import CheckpointError
from torchbucket.store.fresh_memory import FRESH_BYTES, fresh_memory

__all__ = [
    "MapLocation",
    "PlacedArchive",
    "can_place_storages",
    "new_storage",
    "reads_no_data",
    "unpickle",
]

MapLocation: TypeAlias = Callable[[Any, str], Any] | torch.device | str | Mapping[str, str] | None
"""Where tensors go, as ``torch.load`` takes it."""

_torch: Final[Any] = torch  # for what has no types


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
    if size_bytes >= FRESH_BYTES:
        fresh = fresh_memory(size_bytes)
        return torch.frombuffer(fresh, dtype=torch.uint8), memoryview(fresh)
    # A storage by itself, since `torch.empty` fills its memory where deterministic algorithms are asked for.
    storage = _torch.UntypedStorage(size_bytes, device="cpu")
    tensor: torch.Tensor = _torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    return tensor, tensor.numpy().data


def can_place_storages() -> bool:
    """Whether torch unpickles in the way that is known, of 2.6 to 2.13, and nothing intercepts what it does."""
    load = getattr(torch.serialization, "_load", None)
    if load is None or os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") or _is_watched():
        return False
    return list(inspect.signature(load).parameters)[:3] == ["zip_file", "map_location", "pickle_module"]


def reads_no_data(map_location: MapLocation) -> bool:
    """Whether torch makes tensors without content, of the device ``meta`` or fake ones."""
    if map_location == "meta" or (isinstance(map_location, torch.device) and map_location.type == "meta"):
        return True
    skips = getattr(getattr(torch.serialization, "_serialization_tls", None), "skip_data", False)
    return bool(skips) or torch._guards.detect_fake_mode(None) is not None


def unpickle(archive: PlacedArchive, map_location: MapLocation, *, weights_only: bool) -> Any:
    """The object in an archive, as ``torch.load`` makes it."""
    module = torch._weights_only_unpickler if weights_only else pickle
    return _torch.serialization._load(archive, map_location, module, encoding="utf-8")


def _is_watched() -> bool:
    """Whether a ``TorchDispatchMode`` sees, and may read, each tensor that is made."""
    count = getattr(torch._C, "_len_torch_dispatch_stack", None)
    return count is None or count() > 0
