"""What a checkpoint is found to hold, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchbucket.public import public_in

__all__ = ["CheckpointContents", "StoredTensor"]


@public_in("torchbucket.inspection")
@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTensor:
    """One tensor of a checkpoint.

    Args:
        name: its name; of nested values the way to it, such as ``optimizer.state.0.exp_avg``.
        dtype: the kind of its elements, as torch calls it where it does.
        shape: its shape.
        size_bytes: the bytes of its elements, which tensors of a shared storage may have in common.
        file: the address of the object that holds it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    file: str


@public_in("torchbucket.inspection")
@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointContents:
    """A checkpoint without its tensors' bytes.

    Args:
        uri: its address.
        format: the format's name.
        files: the size in bytes of each of its objects by address.
        tensors: its tensors, in the order in which the format has them.
        tensors_bytes: what they take together, shared storages once.
        other_values: how many values of other kinds it has: numbers, texts, and objects that were not made.
        metadata: what the format has as such; None where it has none.
    """

    uri: str
    format: str
    files: Mapping[str, int]
    tensors: Sequence[StoredTensor]
    tensors_bytes: int
    other_values: int = 0
    metadata: Mapping[str, Any] | None = None
