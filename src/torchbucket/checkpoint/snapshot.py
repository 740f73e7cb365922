"""A copy of an object as it is now, made in little more time than its tensors' bytes take to copy."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, NamedTuple

import torch

from torchbucket.checkpoint.archive import holds_elements, is_whole, memory_of
from torchbucket.checkpoint.copying import copy_all

__all__ = ["Snapshot", "take_snapshot"]

_ALIGNMENT_BYTES: Final = 64

# What comes out of a pickle as it went in. Any other class may not, and is laid out before it can change instead.
_RESTORED: Final = frozenset(
    {
        type,  # and functions: a pickle has no more of them than their names
        FunctionType,
        BuiltinFunctionType,
        OrderedDict,
        defaultdict,
        complex,
        bytearray,
        torch.Size,
        torch.device,
        torch.dtype,
        torch.memory_format,
    }
)


class _Tensor(NamedTuple):
    """One tensor, as a view of a storage."""

    storage: int
    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    requires_grad: bool
    kind: type[torch.Tensor]


class Snapshot:
    """An object without its tensors, pickled, and the bytes of their storages."""

    def __init__(self, skeleton: bytes, tensors: list[_Tensor], storages: list[torch.UntypedStorage]) -> None:
        self._skeleton = skeleton
        self._tensors = tensors
        self._storages = storages
        self.size_bytes = sum(_aligned(storage.nbytes()) for storage in storages)
        """How much memory the storages' bytes need."""

    def copy_to(self, memory: memoryview) -> None:
        """Copy the storages' bytes into flat memory, which from then on stands for them."""
        copies = []
        start = 0
        for storage in self._storages:
            copies.append((memory[start : start + storage.nbytes()], memory_of(storage)))
            start += _aligned(storage.nbytes())
        copy_all(copies)
        self._storages = [_storage_in(place) for place, _ in copies]

    def restore(self) -> Any:
        """The object as it was, its tensors in the memory that their bytes were copied to."""
        tensors = list(map(self._tensor, self._tensors))
        return _Unpickler(self._skeleton, tensors).load()

    def _tensor(self, view: _Tensor) -> torch.Tensor:
        tensor = torch.empty(0, dtype=view.dtype, device="cpu")
        tensor.set_(self._storages[view.storage], view.offset, view.size, view.stride)
        if view.kind is torch.Tensor:
            return tensor.requires_grad_() if view.requires_grad else tensor
        return view.kind(tensor, view.requires_grad)


def _aligned(length: int) -> int:
    return -(-length // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _storage_in(place: memoryview) -> torch.UntypedStorage:
    if not len(place):
        return torch.empty(0, dtype=torch.uint8, device="cpu").untyped_storage()
    return torch.frombuffer(place, dtype=torch.uint8).untyped_storage()


def take_snapshot(obj: Any) -> Snapshot | None:
    """Take an object apart into what it consists of beside its tensors, and views of their storages.

    That is a third of the work of pickling it as ``torch.save`` does, which is left for later, when the object itself
    may change: the restored one is pickled to the same bytes. None where that may not be so: for tensors that are on a
    device or of a class of their own, and for objects that may not come out of a pickle as they went in. What cannot
    be pickled at all is left to ``torch.save`` to say, too.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(obj)
    except (_NotRestored, pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    return Snapshot(file.getvalue(), pickler.tensors, pickler.storages)


class _NotRestored(Exception):  # noqa: N818  # no error: it says which way to go
    """The object holds what may not be restored as it was."""


def _tensor_number(number: int) -> Any:
    """What stands for a tensor in a pickle. It is never called: see ``_Unpickler``."""
    raise AssertionError(number)


class _Pickler(pickle.Pickler):
    """Notes each tensor and its storage, and pickles a number in its place."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[_Tensor] = []
        self.storages: list[torch.UntypedStorage] = []
        self._numbers: dict[int, tuple[int, torch.dtype]] = {}
        self._dtypes: dict[int, torch.dtype] = {}

    def reducer_override(self, obj: Any) -> Any:
        """Called for what is not a plain Python value: each object once."""
        kind = type(obj)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            number = len(self.tensors)
            self.tensors.append(self._note(obj, kind))
            return _tensor_number, (number,)
        if kind in _RESTORED:
            return NotImplemented
        raise _NotRestored

    def _note(self, tensor: torch.Tensor, kind: type[torch.Tensor]) -> _Tensor:
        if not holds_elements(tensor) or tensor.__dict__ or tensor._backward_hooks:
            raise _NotRestored
        storage = tensor.untyped_storage()
        number, dtype = self._numbers.setdefault(storage._cdata, (len(self.storages), tensor.dtype))
        if number == len(self.storages):
            self.storages.append(storage)
            if pointer := storage.data_ptr():  # which another storage may have, too
                dtype = self._dtypes.setdefault(pointer, dtype)
        if dtype is not tensor.dtype:  # which torch refuses to save
            raise _NotRestored
        offset, size, stride = int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride()
        if (offset or storage.nbytes() != tensor.nbytes or not tensor.is_contiguous()) and not is_whole(tensor):
            raise _NotRestored  # Its storage would grow.
        return _Tensor(number, dtype, offset, size, stride, tensor.requires_grad, kind)


class _Unpickler(pickle.Unpickler):
    """Puts the tensors in the place of their numbers, in a pickle that this process made a moment ago."""

    def __init__(self, skeleton: bytes, tensors: list[torch.Tensor]) -> None:
        super().__init__(io.BytesIO(skeleton))
        self._tensors = tensors

    def find_class(self, module: str, name: str, /) -> Any:
        """Answer for the stand-in of a tensor, and as ever for all else."""
        if name == _tensor_number.__name__ and module == __name__:
            return self._tensors.__getitem__
        return super().find_class(module, name)
