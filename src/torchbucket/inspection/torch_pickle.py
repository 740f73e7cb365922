"""The tensors that a pickle of ``torch.save`` describes, told without importing or calling anything it names.

``torch.load(weights_only=True)`` refuses a checkpoint with a class that it does not know. Here every class and
function becomes an empty stand-in, but for those that say what a tensor is: so nothing needs to be known, and nothing
can be run.
"""

from __future__ import annotations

import math
import pickle
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Final

from torchbucket.errors import StoreError
from torchbucket.safetensors.dtypes import DTYPES

__all__ = ["DescribedStorage", "DescribedTensor", "PickleError", "described", "walk"]

_DEPTH_LIMIT: Final = 100
_COUNT_LIMIT: Final = 1 << 60  # of elements, so that torch can count their bytes
# Names are made of all keys on the way to a tensor, and a short pickle may use a long key again and again.
_NAME_LIMIT: Final = 10_000
_NAMES_LIMIT: Final = 1 << 28
_PLAIN: Final = (int, float, str, bytes, type(None))


class PickleError(ValueError):
    """The pickle is damaged, or describes something that is no tensor as if it were one."""


@dataclass(frozen=True, slots=True)
class DescribedStorage:
    """A storage that the pickle refers to.

    Args:
        key: its name among the storages of the file.
        dtype: the kind of its elements; bytes where it has none.
        size_bytes: its length.
    """

    key: str
    dtype: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DescribedTensor:
    """A tensor that the pickle describes.

    Args:
        dtype: the kind of its elements.
        shape: its shape.
        storage: where its bytes are; None where it has none.
    """

    dtype: str
    shape: tuple[int, ...]
    storage: DescribedStorage | None

    @property
    def size_bytes(self) -> int:
        """The bytes of its elements."""
        if self.storage is None:
            return 0
        bits = _BITS.get(self.dtype)
        return self.storage.size_bytes if bits is None else math.prod(self.shape) * bits // 8


# The kind and the size of the elements of each class of storages. Source: torch 2.13, ``torch/storage.py``,
# ``_dtype_to_storage_type_map``.
_STORAGES: Final = {
    "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "QInt32Storage": "qint32",
    "QInt8Storage": "qint8",
    "QUInt2x4Storage": "quint2x4",
    "QUInt4x2Storage": "quint4x2",
    "QUInt8Storage": "quint8",
    "ShortStorage": "int16",
    "UntypedStorage": "uint8",
}
# Of a packed dtype, the bits of what torch counts as one element.
_BITS: Final = {element.torch_name: element.bits * element.packed for element in DTYPES.values()} | {
    "complex128": 128,
    "complex32": 32,
    "qint32": 32,
    "qint8": 8,
    "quint2x4": 2,
    "quint4x2": 4,
    "quint8": 8,
}


class _StandIn:
    """An object of any class: it keeps what it is given, for tensors may be among that."""

    path = ""
    parts: list[tuple[object, object]]

    def __new__(cls, *args: object, **named: object) -> _StandIn:
        made = object.__new__(cls)
        made.parts = [*enumerate(args), *named.items()]
        return made

    def __init__(self, *args: object, **named: object) -> None:
        """Take anything."""

    def __setstate__(self, state: object) -> None:
        self.parts += state.items() if type(state) is dict else [("state", state)]

    def __setitem__(self, key: object, value: object) -> None:
        self.parts.append((key, value))

    def append(self, value: object) -> None:
        """Take one item, as a list does."""
        self.parts.append((len(self.parts), value))

    def extend(self, values: list[object]) -> None:
        """Take several items, as a list does."""
        for value in values:
            self.append(value)

    def add(self, value: object) -> None:
        """Take one item, as a set does."""
        self.append(value)


def _rebuild_tensor(storage: object, _offset: object, size: object, *_others: object) -> DescribedTensor:
    if not isinstance(storage, DescribedStorage):
        raise PickleError(f"a tensor's storage is a {type(storage).__name__}")
    return DescribedTensor(storage.dtype, _shape(size), storage)


def _rebuild_tensor_v3(
    storage: object,
    offset: object,
    size: object,
    _stride: object,
    _grad: object,
    _hooks: object,
    dtype: object,
    *_: object,
) -> DescribedTensor:
    tensor = _rebuild_tensor(storage, offset, size)
    return DescribedTensor(_dtype_name(dtype), tensor.shape, tensor.storage)


def _rebuild_parameter(data: object, *_others: object) -> object:
    return data


def _rebuild_sparse_tensor(_layout: object, data: object) -> object:
    if not isinstance(data, tuple):
        raise PickleError(f"a sparse tensor is made of a {type(data).__name__}")
    tensors = [part for part in data if isinstance(part, DescribedTensor)]
    names = ("indices", "values") if len(tensors) == 2 else ("compressed_indices", "plain_indices", "values")
    return dict(zip(names, tensors, strict=False))


def _rebuild_nested_tensor(buffer: object, *sizes: object) -> object:
    return {"buffer": buffer, "sizes": list(sizes)}


def _rebuild_meta_tensor(dtype: object, size: object, *_others: object) -> DescribedTensor:
    return DescribedTensor(_dtype_name(dtype), _shape(size), None)


def _rebuild_wrapper_subclass(_kind: object, dtype: object, size: object, *_others: object) -> DescribedTensor:
    return _rebuild_meta_tensor(dtype, size)


def _rebuild_from_type(function: object, _kind: object, args: object, _state: object) -> object:
    # Whatever can be called here is one of ours.
    if not callable(function) or not isinstance(args, tuple):
        raise PickleError("a tensor of a class of its own is made of something else than a function and arguments")
    return function(*args)


def _size(items: object) -> tuple[int, ...]:
    return _shape(items)


_REBUILD: Final[dict[tuple[str, str], Callable[..., object]]] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
    ("torch._utils", "_rebuild_qtensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._utils", "_rebuild_sparse_tensor"): _rebuild_sparse_tensor,
    ("torch._utils", "_rebuild_nested_tensor"): _rebuild_nested_tensor,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _rebuild_meta_tensor,
    ("torch._utils", "_rebuild_wrapper_subclass"): _rebuild_wrapper_subclass,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    ("torch", "Size"): _size,
    ("collections", "OrderedDict"): OrderedDict,
}
"""What a pickle may have called. *Source:* torch 2.13, ``torch/_utils.py`` and ``Tensor.__reduce_ex__``."""


# The implementation in C may allocate gigabytes for a number in a damaged pickle; this one keeps its memo in a dict.
class _Reader(pickle._Unpickler):
    stack: list[Any]
    read: Callable[[int], bytes]

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._stand_ins: dict[str, type[_StandIn]] = {}

    def load_build(self) -> None:
        """Give an object its state; anything but stand-ins and dicts would be a part of this program, or a tensor."""
        if not isinstance(self.stack[-2], _StandIn | OrderedDict):
            raise PickleError(f"it sets attributes of a {type(self.stack[-2]).__name__}")
        pickle._Unpickler.load_build(self)  # type: ignore[attr-defined]

    def load_bytearray8(self) -> None:
        """Take bytes that are there; Python's own makes room first, for however many the pickle promises."""
        (length,) = struct.unpack("<Q", self.read(8))
        if length > sys.maxsize:
            raise PickleError(f"it promises {length} bytes")
        data = self.read(length)
        if len(data) < length:
            raise PickleError(f"it promises {length} bytes and ends after {len(data)}")
        self.stack.append(bytearray(data))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.BUILD[0]: load_build,
        pickle.BYTEARRAY8[0]: load_bytearray8,
    }

    def find_class(self, module: str, name: str) -> object:
        """Return what stands for a class or function; nothing is imported."""
        found = _REBUILD.get((module, name))
        if found is not None:
            return found
        path = f"{module}.{name}"
        if path not in self._stand_ins:
            self._stand_ins[path] = type("_StandIn", (_StandIn,), {"path": path})
        return self._stand_ins[path]

    def get_extension(self, code: int) -> None:
        """Refuse what this process may have registered with ``copyreg``."""
        raise PickleError(f"it has an extension of pickle, number {code}")

    def persistent_load(self, pid: object) -> object:
        """Return what stands for a storage."""
        if isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage":
            kind, key, count = _path(pid[1]), pid[2], pid[4]
            dtype = _STORAGES.get((kind or "").rpartition(".")[2])
            if dtype is None or not isinstance(key, str) or type(count) is not int:
                raise PickleError(f"it refers to a storage of an unknown kind, {str(kind)[:100]}")
            if not 0 <= count < _COUNT_LIMIT:
                raise PickleError("it refers to a storage of a size that none has")
            return DescribedStorage(key, dtype, count * _BITS[dtype] // 8)
        return _StandIn(pid)


def described(file: BinaryIO) -> Any:
    """Read one pickle; its tensors are ``DescribedTensor``, its storages ``DescribedStorage``.

    Args:
        file: where it begins; what follows is left.

    Raises:
        PickleError: it is damaged.
        StoreError: the file failed.
    """
    try:
        return _Reader(file).load()
    except (PickleError, StoreError):
        raise
    except Exception as error:  # a damaged pickle has Python objects do anything
        raise PickleError(f"{type(error).__name__}: {str(error)[:200]}") from error


def walk(value: object) -> Iterator[tuple[str, object]]:
    """Yield every value that is no container, with the way to it; a container that is there twice once.

    Numbers and texts, of which there may be millions, come without the way.

    Raises:
        PickleError: it is nested too deeply, or its names are longer than any reader wants.
    """
    told = 0
    seen: set[int] = set()
    waiting: list[tuple[str, int, object]] = [("", 0, value)]
    while waiting:
        path, depth, found = waiting.pop()
        parts = _parts(found)
        if parts is None:
            yield path, found
        elif id(found) not in seen:
            seen.add(id(found))
            if depth == _DEPTH_LIMIT:
                raise PickleError(f"values are nested more than {_DEPTH_LIMIT} deep, at {path[:200]}")
            for key, part in reversed(parts):
                if isinstance(part, _PLAIN):
                    waiting.append(("", depth + 1, part))
                    continue
                name = f"{path}.{_key(key)}" if path else _key(key)
                told += len(name)
                if len(name) > _NAME_LIMIT or told > _NAMES_LIMIT:
                    raise PickleError(f"the names of its values are too long, at {name[:200]}")
                waiting.append((name, depth + 1, part))


def _parts(value: object) -> list[tuple[object, object]] | None:
    if isinstance(value, dict):
        return list(dict.items(value))  # An attribute of the pickle's may be called so.
    if isinstance(value, list | tuple | set | frozenset):
        return list(enumerate(value))
    return value.parts if isinstance(value, _StandIn) else None


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int):
        return str(key) if abs(key) < _COUNT_LIMIT or isinstance(key, bool) else hex(key)
    return repr(key) if isinstance(key, float | bytes) else type(key).__name__


def _path(value: object) -> str | None:
    """What the pickle calls a class or function; None for anything else."""
    return value.path if isinstance(value, type) and issubclass(value, _StandIn) else None


def _dtype_name(value: object) -> str:
    path = _path(value)
    if path is None:
        raise PickleError(f"a tensor's dtype is a {type(value).__name__}")
    return path.removeprefix("torch.")


def _shape(size: object) -> tuple[int, ...]:
    if not isinstance(size, tuple | list) or not all(type(length) is int and length >= 0 for length in size):
        raise PickleError("a tensor's shape is no tuple of whole numbers")
    elements = 1
    for length in size:
        elements *= max(1, length)
        if elements >= _COUNT_LIMIT:
            raise PickleError("a tensor's shape is more than can be counted")
    return tuple(size)
