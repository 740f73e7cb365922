"""Bytes objects that are written once, by a read, before anybody else sees them: a body needs no second copy.

CPython lets whoever makes a bytes object fill it before it is handed out. *Source*: Python/C API,
``PyBytes_FromStringAndSize`` with NULL.

Fresh pages are the dearest part that is left: 0.3 to 0.8 s of CPU a GiB on a virtual machine. Asking the system for
huge pages is no way out: of one job's reads some then took a third less CPU and others twice as much, as the kernel
found them or made them by moving others.
"""

from __future__ import annotations

import ctypes

from torchbucket.store.owned_memory import view_of

__all__ = ["writable_bytes"]

_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype = ctypes.py_object
_new_bytes.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]

_address_of = ctypes.pythonapi.PyBytes_AsString
_address_of.restype = ctypes.c_void_p
_address_of.argtypes = [ctypes.py_object]


def writable_bytes(length: int) -> tuple[bytes, memoryview]:
    """A new bytes object and a writable view of it. Whoever has the view must not write once the object is handed out.

    Args:
        length: in bytes, at least 2; the content is whatever was in the memory before.

    Raises:
        MemoryError: there is not so much.
    """
    if length < 2:
        raise ValueError(f"CPython shares bytes objects of up to 1 byte, which nobody may write to; got {length}")
    data: bytes = _new_bytes(None, length)
    return data, view_of(data, _address_of(data), length)
