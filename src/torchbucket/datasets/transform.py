"""What becomes of an object: the default, and what an exception of a user's function is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from torchbucket.files.reader import ObjectReader

if TYPE_CHECKING:
    from torchbucket.datasets.tar.sample import TarSample

__all__ = ["apply_transform", "read_bytes"]


T = TypeVar("T")
Item = TypeVar("Item", ObjectReader, "TarSample")


def read_bytes(reader: ObjectReader) -> bytes:
    """The default transform: the object's whole content."""
    return reader.read()


def apply_transform(transform: Callable[[Item], T], item: Item) -> T:
    """Call a user's function on one object, or on one sample of a shard.

    Raises:
        RuntimeError: the function raised ``StopIteration``, which a ``for`` loop or a DataLoader around it would take
            for the end of the data.
        Exception: whatever else the function raised, with a note that names it. The note is part of what a
            DataLoader's worker reports to its parent.
    """
    try:
        return transform(item)
    except StopIteration as error:
        raise RuntimeError(f"transform raised StopIteration for {item.uri}") from error
    except Exception as error:
        error.add_note(f"while transforming {item.uri}")
        raise
