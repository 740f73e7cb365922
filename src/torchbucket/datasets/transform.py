"""What becomes of an object: the default, and what an exception of a user's function is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from torchbucket.files.reader import ObjectReader

__all__ = ["Located", "apply_transform", "read_bytes"]


class Located(Protocol):
    """Something read that can say where it came from."""

    @property
    def uri(self) -> str:
        """The address, for messages."""
        ...


T = TypeVar("T")
LocatedT = TypeVar("LocatedT", bound=Located)


def read_bytes(reader: ObjectReader) -> bytes:
    """The default transform: the object's whole content."""
    return reader.read()


def apply_transform(transform: Callable[[LocatedT], T], item: LocatedT) -> T:
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
