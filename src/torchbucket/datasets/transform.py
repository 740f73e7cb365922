"""What becomes of an object: the default, and what an exception of a user's function is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torchbucket.files.reader import ObjectReader

__all__ = ["apply_transform", "read_bytes"]

T = TypeVar("T")


def read_bytes(reader: ObjectReader) -> bytes:
    """The default transform: the object's whole content."""
    return reader.read()


def apply_transform(transform: Callable[[ObjectReader], T], reader: ObjectReader) -> T:
    """Call a user's function on one object.

    Raises:
        RuntimeError: the function raised ``StopIteration``, which a ``for`` loop or a DataLoader around it would take
            for the end of the data.
        Exception: whatever else the function raised, with a note that names the object. The note is part of what a
            DataLoader's worker reports to its parent.
    """
    try:
        return transform(reader)
    except StopIteration as error:
        raise RuntimeError(f"transform raised StopIteration for {reader.uri}") from error
    except Exception as error:
        error.add_note(f"while transforming {reader.uri}")
        raise
