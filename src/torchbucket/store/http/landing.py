"""Memory that a large read lands in, and that is the caller's ``bytes`` when all has arrived: no copy.

CPython lets whoever makes a bytes object fill it before anybody else sees it. *Source*: Python/C API,
``PyBytes_FromStringAndSize`` with NULL.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

import numpy as np

__all__ = ["landing"]

_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype = ctypes.py_object
_new_bytes.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]

_address_of = ctypes.pythonapi.PyBytes_AsString
_address_of.restype = ctypes.c_void_p
_address_of.argtypes = [ctypes.py_object]

# Fresh memory comes page by page, each for an interrupt that costs a virtual machine 2 to 4 µs: 0.8 s a GiB, more than
# receiving it over TLS. By huge pages, where the system gives them to who asks, it is 0.2. Source: measured on 2 cores
# of a virtual machine (docs/decisions/0004-where-large-reads-land.md); the bound is numpy's for its arrays.
_HUGE_FROM_BYTES: Final = 4 << 20

if sys.platform == "linux":
    _advise = ctypes.CDLL(None).madvise
    _advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class _Memory:
    """A bytes object's memory, as numpy asks for it; every array and view of it keeps the object alive."""

    def __init__(self, data: bytes, address: int) -> None:
        self._data = data
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (len(data),),
            "data": (address, False),
        }


def landing(length: int) -> tuple[bytes, memoryview]:
    """A new bytes object and a writable view of it. Whoever has the view must not write once the object is handed out.

    Args:
        length: in bytes, at least 2; the content is whatever was in the memory before.

    Raises:
        MemoryError: there is not so much.
    """
    if length < 2:
        raise ValueError(f"CPython shares bytes objects of up to 1 byte, which nobody may write to; got {length}")
    data: bytes = _new_bytes(None, length)
    address = _address_of(data)
    if sys.platform == "linux" and length >= _HUGE_FROM_BYTES:
        first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        # A kernel without huge pages refuses, which changes nothing.
        _advise(first, (address + length - first) // mmap.PAGESIZE * mmap.PAGESIZE, mmap.MADV_HUGEPAGE)
    return data, np.asarray(_Memory(data, address)).data
