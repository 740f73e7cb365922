"""The file ``.metadata`` of a distributed checkpoint: a pickle, read without giving what it names a chance to run."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final, NoReturn

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from torchbucket.errors import CheckpointError

__all__ = ["METADATA_NAME", "metadata_bytes", "metadata_from"]

METADATA_NAME: Final = ".metadata"

_METADATA: Final = "torch.distributed.checkpoint.metadata"
_FILESYSTEM: Final = "torch.distributed.checkpoint.filesystem"
_PATHS: Final = frozenset({"PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath", "Path", "PurePath"})
_MEMORY_FORMATS: Final = (torch.contiguous_format, torch.channels_last, torch.preserve_format)


def metadata_bytes(metadata: Metadata) -> bytes:
    """The file's content."""
    return pickle.dumps(metadata)


def metadata_from(content: bytes | bytearray | memoryview, uri: str) -> Metadata:
    """Read the file's content.

    A pickle may name any function to be called. Here it gets classes made for it alone, which only hold what it puts
    there; what they hold is checked, and goes into the classes of PyTorch. Beside those it may name what was given to
    ``torch.serialization.add_safe_globals``.

    Args:
        content: the bytes of the file.
        uri: its address, for messages.

    Raises:
        CheckpointError: it is no metadata, is damaged, or names something else.
    """
    try:
        return _metadata(_Unpickler(io.BytesIO(content), uri).load())
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"{uri}: no metadata of a distributed checkpoint, or damaged ({type(error).__name__}: {error}); give the "
            "address of a checkpoint that torch.distributed.checkpoint has saved, or load an earlier one",
            uri=uri,
        ) from error


class _Held:
    """What an object of the pickle holds: attributes by name, or one state that is no dictionary."""

    # What it stands for, once that is made: a few bytes may name one thing many times. A slot, which no pickle sets.
    __slots__ = ("__dict__", "made")

    made: Any
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)
        else:
            self.state = state


class _Unpickler(pickle.Unpickler):
    """Hands out stand-ins, made anew for each pickle: what it does to one ends with it."""

    def __init__(self, file: io.BytesIO, uri: str) -> None:
        super().__init__(file)
        self._uri = uri
        self._found: dict[tuple[str, str], Any] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        """Answer for what the metadata of PyTorch consists of."""
        if (module, name) not in self._found:
            self._found[module, name] = self._stand_in(module, name)
        return self._found[module, name]

    def persistent_load(self, pid: Any) -> NoReturn:
        """Refuse what lies outside of the pickle."""
        raise pickle.UnpicklingError(f"it refers to {pid!r}, outside of it")

    def _stand_in(self, module: str, name: str) -> Any:
        if module == "torch":
            if isinstance(value := getattr(torch, name, None), torch.dtype | torch.layout) or value is torch.Size:
                return value
        elif (module, name) == (_METADATA, "_MEM_FORMAT_ENCODING"):
            return lambda number: _MEMORY_FORMATS[number]
        elif (module, name) in _CONVERTERS:
            return type(name, (_Held,), {"named": (module, name)})
        elif (module, name) == ("torch.serialization", "_get_layout"):
            return lambda layout: _layout(layout)  # a function of this pickle's own: it may set attributes of it
        elif module.partition(".")[0] == "pathlib" and name in _PATHS:
            return lambda *parts: str(PurePath(*parts))
        elif (module, name) in {("collections", "OrderedDict"), ("builtins", "dict")}:
            return dict
        for safe in torch.serialization.get_safe_globals():
            given, known = safe if isinstance(safe, tuple) else (safe, f"{safe.__module__}.{safe.__qualname__}")
            if known == f"{module}.{name}":
                return given
        raise CheckpointError(
            f"{self._uri} names {module}.{name}, which is no part of a distributed checkpoint's metadata; where you "
            "trust the file, allow it by torch.serialization.add_safe_globals",
            uri=self._uri,
        )


def _layout(name: str) -> torch.layout:
    layout: torch.layout = _of(torch.layout, getattr(torch, name.removeprefix("torch.")))
    return layout


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind}, found {type(value).__name__}")
    return value


def _size(value: Any) -> torch.Size:
    lengths = [_of(int, length) for length in _of((torch.Size, tuple, list), value)]
    if min(lengths, default=0) < 0:
        raise ValueError(f"a size or an offset of {lengths}")
    return torch.Size(lengths)


def _held(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, _Held) or value.named[1] != name:  # type: ignore[attr-defined]
        raise TypeError(f"expected {name}, found {type(value).__name__}")
    return vars(value)


def _metadata(value: Any) -> Metadata:
    held = _held(value, "Metadata")
    storage_data = held.get("storage_data")
    stored = (TensorStorageMetadata, BytesStorageMetadata)
    return Metadata(
        state_dict_metadata={
            _of(str, name): _of(stored, _converted(entry))
            for name, entry in _of(dict, held["state_dict_metadata"]).items()
        },
        planner_data=_plain(held.get("planner_data"), {}),
        storage_data=None
        if storage_data is None
        else {
            _of(MetadataIndex, _converted(index)): _of(_StorageInfo, _converted(place))
            for index, place in _of(dict, storage_data).items()
        },
        storage_meta=_of((StorageMeta, type(None)), _plain(held.get("storage_meta"), {})),
        version=_of((str, type(None)), held.get("version")),
    )


def _tensor(held: Mapping[str, Any]) -> TensorStorageMetadata:
    chunks = _of(list, held["chunks"])
    return TensorStorageMetadata(
        _of(TensorProperties, _converted(held["properties"])),
        _size(held["size"]),
        [_of(ChunkStorageMetadata, _converted(one)) for one in chunks],
    )


def _properties(held: Mapping[str, Any]) -> TensorProperties:
    dtype, layout, requires_grad, memory_format, pin_memory = held["state"]
    return TensorProperties(
        _of(torch.dtype, dtype),
        _of(torch.layout, layout),
        _of(bool, requires_grad),
        _of(torch.memory_format, memory_format),
        _of(bool, pin_memory),
    )


def _index(held: Mapping[str, Any]) -> MetadataIndex:
    offset, index = held.get("offset"), held.get("index")
    return MetadataIndex(
        _of(str, held["fqn"]), None if offset is None else _size(offset), _of((int, type(None)), index)
    )


def _storage_info(held: Mapping[str, Any]) -> _StorageInfo:
    path, offset, length = held["relative_path"], held["offset"], held["length"]
    if _of(int, offset) < 0 or _of(int, length) < 0:
        raise ValueError(f"{path!r}: a place of {length} bytes at {offset}")
    descriptors = held.get("transform_descriptors")
    if descriptors is not None:
        descriptors = [_of(str, one) for one in _of((list, tuple), descriptors)]
    return _StorageInfo(_of(str, path), offset, length, descriptors)


def _storage_meta(held: Mapping[str, Any]) -> StorageMeta:
    text = (str, type(None))
    modules = [_of(str, one) for one in held.get("modules") or ()]
    return StorageMeta(_of(text, held.get("checkpoint_id")), _of(text, held.get("save_id")), None, modules)


# What each class of the metadata is made of, by the name that pickles have of it.
_CONVERTERS: Final[dict[tuple[str, str], Callable[[Mapping[str, Any]], Any]]] = {
    (_METADATA, "Metadata"): lambda held: held,
    (_METADATA, "TensorStorageMetadata"): _tensor,
    (_METADATA, "BytesStorageMetadata"): lambda _: BytesStorageMetadata(),
    (_METADATA, "ChunkStorageMetadata"): lambda held: ChunkStorageMetadata(
        _size(held["offsets"]), _size(held["sizes"])
    ),
    (_METADATA, "TensorProperties"): _properties,
    (_METADATA, "MetadataIndex"): _index,
    (_METADATA, "StorageMeta"): _storage_meta,
    (_FILESYSTEM, "_StorageInfo"): _storage_info,
}


def _converted(value: Any) -> Any:
    if not isinstance(value, _Held):
        raise TypeError(f"found {type(value).__name__}")
    if not hasattr(value, "made"):
        value.made = _CONVERTERS[value.named](vars(value))  # type: ignore[attr-defined]
    return value.made


def _plain(value: Any, known: dict[int, Any]) -> Any:
    """Plain values as they are, and PyTorch's own in them as what they stand for.

    What is there many times is converted once, else a few bytes could stand for more than there is memory for.
    """
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, _Held):
        plain = _converted(value)
    elif isinstance(value, dict):
        plain = {_plain(key, known): _plain(entry, known) for key, entry in value.items()}
    elif isinstance(value, list | tuple | set) and not isinstance(value, torch.Size):
        plain = type(value)([_plain(one, known) for one in value])
    else:
        return value
    known[id(value)] = plain
    return plain
