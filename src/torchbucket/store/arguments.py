"""The checks of what callers give to a store: the same for all stores, before anything is sent."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias

from torchbucket.errors import ConfigError
from torchbucket.uri import key_bytes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "Bytes",
    "byte_count",
    "byte_view",
    "check_key",
    "check_version",
    "first_bytes",
    "writable_view",
]

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Contiguous memory, of any shape and item."""


def check_key(key: str) -> None:
    """Raise ``ConfigError`` unless ``key`` can name an object anywhere."""
    if not isinstance(key, str) or not key:
        raise ConfigError(f"an object's key is a text of at least one character; got {key!r}")
    key_bytes(key)


def check_version(version: str) -> None:
    """Raise ``ConfigError`` unless ``version`` can be one, and be sent in a header's line: visible ASCII characters."""
    if not isinstance(version, str) or not version or not (version.isascii() and version.isprintable()):
        raise ConfigError(
            f"an object's version is an ETag, a generation or the like, of printable ASCII characters; got {version!r}"
        )


def byte_count(name: str, value: int) -> int:
    """Return a position or length in bytes as an ``int``; raise ``ConfigError`` unless it is one of at least 0."""
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise ConfigError(f"{name} must be a whole number of bytes, at least 0; got {value!r}")
    return count


def byte_view(data: ReadableBuffer) -> memoryview:
    """The memory of ``data`` as flat bytes; raise ``ConfigError`` where it is not contiguous, or no memory at all."""
    try:
        view = memoryview(data)
    except TypeError:
        raise ConfigError(f"bytes, bytearray or memoryview are needed; got {type(data).__name__}") from None
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    if not view.nbytes:
        return memoryview(bytearray())  # A shape with a zero in it cannot be cast.
    if not view.c_contiguous:
        raise ConfigError(f"the memory must be contiguous; got strides {view.strides} for the shape {view.shape}")
    return view.cast("B")


def writable_view(memory: memoryview) -> memoryview:
    """The memory that a read is to fill, as flat bytes; raise ``ConfigError`` where it cannot be written to."""
    view = byte_view(memory)
    if view.readonly:
        raise ConfigError("the target of a read must be writable memory; got a read-only view")
    return view


def first_bytes(memory: memoryview, length: int) -> memoryview:
    """The first ``length`` bytes of a read's target; raise ``ConfigError`` where it is shorter."""
    if len(memory) < length:
        raise ConfigError(f"the target holds {len(memory)} bytes but the range has {length}; give at least as many")
    return memory[:length]
