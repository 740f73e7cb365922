"""Copying a state to host memory, for a save in the background to read while the training goes on."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import torch
from torch.cuda._pin_memory_utils import pin_memory, unpin_memory
from torch.distributed.checkpoint.staging import AsyncStager, DefaultStager, StagingOptions
from torch.distributed.tensor import DTensor

from torchbucket.checkpoint.archive import holds_elements, is_plain, memory_of
from torchbucket.checkpoint.copying import copy_all
from torchbucket.dcp.item_layout import check_memory
from torchbucket.dcp.strides import contiguous_strides
from torchbucket.public import public_in
from torchbucket.store.fresh_memory import fresh_memory
from torchbucket.store.owned_memory import view_of
from torchbucket.store.thread_pool import ThreadPool

__all__ = ["HostStager", "Staged"]

# Of each tensor in the memory that all share: a multiple of every dtype's size, and a line of the processor's cache.
_ALIGNMENT: Final = 64
# What cannot change, so that it need not be copied.
_CONSTANT: Final = frozenset({bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.Size, torch.device})
_MAPPINGS: Final = frozenset({dict, OrderedDict})
_SEQUENCES: Final = frozenset({list, tuple})


@public_in("torchbucket.dcp")
class HostStager(AsyncStager):
    """Copies states into one piece of host memory, which is used again: an ``async_stager`` to keep between saves.

        stager = HostStager()
        future = dcp.async_save(state, storage_writer=writer, async_stager=stager)

    PyTorch's ``DefaultStager`` walks through a ``DTensor`` as through any object, which takes several times as long as
    to copy what it holds. Here a copy has nothing but the elements, one after another, so that a view takes no more
    memory than it shows. Where an earlier copy is still there, for example since a save of it is under way, another
    memory is taken, unless ``recycle`` has said that nobody reads it: it never changes under a save.

    Args:
        shared: the memory can be read by other processes, as ``AsyncCheckpointerType.PROCESS`` needs. It is no file of
            ``/dev/shm``, which is small in many containers.
        overlap: ``stage`` returns at once, with a future of the copy; the state must not change until it is done.

    Memory is page-locked where there is a GPU, and copies from there are awaited all together.
    """

    _synchronize_after_execute = False

    def __init__(self, *, shared: bool = False, overlap: bool = False) -> None:
        self._shared = shared
        self._memory = _no_memory()
        self._is_recycled = False
        self._thread = ThreadPool(1, thread_name_prefix="torchbucket-stage") if overlap else None
        self._stream = torch.Stream() if overlap and torch.accelerator.is_available() else None

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any] | Future[dict[str, Any]]:
        """Copy a state.

        Args:
            state_dict: of tensors, values, and dictionaries, lists and tuples of them.

        Returns:
            The same with tensors on the CPU, or a future of it.

        Raises:
            CheckpointError: a tensor's memory was freed, as FSDP does with what it has gathered.
        """
        if self._thread is None:
            return self._copy(state_dict)
        if self._stream is not None:  # what was asked of the device before is part of the state
            self._stream.wait_stream(torch.accelerator.current_stream())
        return self._thread.submit(self._copy_beside, state_dict)

    def recycle(self) -> None:
        """Have the next copy take the place of the last one, which is not read any more.

        After a save of several ranks, references to its copy are left until the garbage is collected.
        """
        self._is_recycled = True

    def synchronize_staging(self) -> None:
        """Nothing: a copy is done when ``stage`` returns it, or its future has it."""

    def close(self) -> None:
        """Give the memory back, once nothing is copied any more."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._memory = _no_memory()

    def _copy_beside(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        if self._stream is None:
            return self._copy(state_dict)
        with self._stream:
            return self._copy(state_dict)

    @torch.no_grad()
    def _copy(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        layout = _Layout(self._copy_other)
        copied: dict[str, Any] = layout.copy_of(state_dict)
        memory = self._memory_of(layout.size_bytes)
        content = memory_of(memory)
        on_host: list[tuple[memoryview, memoryview]] = []
        on_device = False
        for source, target, offset in layout.tensors:
            target.set_(memory, offset // source.element_size(), source.shape, contiguous_strides(source.shape))
            if holds_elements(source) and source.is_contiguous():
                piece = view_of(source, source.data_ptr(), source.nbytes)
                on_host.append((content[offset : offset + len(piece)], piece))
            else:
                target.copy_(source, non_blocking=True)
                on_device |= not source.is_cpu
        copy_all(on_host)
        if on_device:
            torch.accelerator.current_stream().synchronize()
        return copied

    def _copy_other(self, value: Any) -> Any:
        """A copy of what is none of ours: PyTorch's way, in memory that is not used again."""
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            return value.to("cpu", copy=True)  # which PyTorch's stager does not know
        options = StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=self._shared,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
        copied: Any = DefaultStager(options).stage({"value": value})
        return copied["value"]

    def _memory_of(self, length: int) -> torch.UntypedStorage:
        """Memory of at least that length, that nobody reads."""
        is_read = not self._is_recycled and torch._C._storage_Use_Count(self._memory._cdata) > 1
        self._is_recycled = False
        if is_read or not length <= self._memory.nbytes() <= 2 * length:
            self._memory = _no_memory()  # freed before there is more
            self._memory = _new_memory(length, shared=self._shared)
        return self._memory


class Staged(AsyncStager):
    """Tells ``async_save`` that a state is copied already.

    Args:
        copy: the copy, or a future of it.
    """

    _synchronize_after_execute = False

    def __init__(self, copy: dict[str, Any] | Future[dict[str, Any]]) -> None:
        self._copy = copy

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any] | Future[dict[str, Any]]:
        """The copy, of whatever state."""
        del state_dict
        return self._copy

    def synchronize_staging(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """Nothing is held."""


class _Layout:
    """Where the copies of a state's tensors lie in one memory.

    Args:
        copy_other: copies what is neither a tensor nor made of such things.
    """

    def __init__(self, copy_other: Callable[[Any], Any]) -> None:
        self._copy_other = copy_other
        self._known: dict[tuple[Any, ...], torch.Tensor] = {}
        self.tensors: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        """Each tensor, the copy that has yet no memory, and the place of that in bytes."""
        self.size_bytes = 0

    def copy_of(self, value: Any, name: str = "") -> Any:
        """The same structure, with the copies in the places of the tensors.

        Raises:
            CheckpointError: a tensor's memory was freed.
        """
        kind = type(value)
        if kind in _CONSTANT:
            return value
        if isinstance(value, torch.Tensor) and _is_strided(value):
            return self._copy_of_tensor(value, name)
        if kind in _MAPPINGS:
            return kind((key, self.copy_of(inner, f"{name}.{key}")) for key, inner in value.items())
        if kind in _SEQUENCES:
            return kind(self.copy_of(inner, f"{name}.{number}") for number, inner in enumerate(value))
        if kind is DTensor:
            local = value.to_local()
            if _is_strided(local):
                # By its own constructor, since from_local would compute what the specification says already.
                return DTensor(self._copy_of_tensor(local, name), value._spec, requires_grad=False)  # type: ignore[no-untyped-call]
        return self._copy_other(value)

    def _copy_of_tensor(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        check_memory(tensor, "the state to be saved", name.lstrip("."))
        key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        copy = self._known.get(key)
        if copy is None:
            copy = self._known[key] = torch.empty(0, dtype=tensor.dtype)
            self.tensors.append((tensor, copy, self.size_bytes))
            self.size_bytes += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        return copy


def _is_strided(tensor: torch.Tensor) -> bool:
    """Whether it is nothing but its elements."""
    return is_plain(tensor) and tensor.layout is torch.strided


def _new_memory(length: int, *, shared: bool) -> torch.UntypedStorage:
    if not length:
        return _no_memory()
    if shared:
        memory = _shared_memory(length)
        if torch.cuda.is_available():
            _lock(memory)
        return memory
    if torch.cuda.is_available():
        return torch.empty(length, dtype=torch.uint8, pin_memory=True).untyped_storage()
    return torch.frombuffer(fresh_memory(length), dtype=torch.uint8).untyped_storage()


def _no_memory() -> torch.UntypedStorage:
    return torch.UntypedStorage(0)  # type: ignore[no-untyped-call]


def _shared_memory(length: int) -> torch.UntypedStorage:
    make: Any = torch.UntypedStorage
    memory: torch.UntypedStorage
    if not hasattr(os, "memfd_create"):
        memory = make._new_shared(length, device="cpu")
        return memory
    descriptor = os.memfd_create("torchbucket-staged")
    try:
        os.ftruncate(descriptor, length)
        memory = make._new_shared_fd_cpu(descriptor, length)  # which keeps a descriptor of its own
    finally:
        os.close(descriptor)
    return memory


def _lock(memory: torch.UntypedStorage) -> None:
    """Have memory that is there already page-locked as long as it lives, for CUDA."""
    pin_memory(memory.data_ptr(), memory.nbytes())
    release = weakref.finalize(memory, unpin_memory, memory.data_ptr())
    release.atexit = False  # CUDA is gone by then
