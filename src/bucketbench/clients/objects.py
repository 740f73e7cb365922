"""Map data sets over listed objects: what the adapters of clients without a data set of their own share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset

from bucketbench.errors import UsageError

__all__ = ["BatchedObjects", "ObjectsByIndex", "Sample"]

Sample = tuple[str, Any]
"""An object's key, relative to the target's prefix, and its content, a bytes-like object."""


class ObjectsByIndex(Dataset[Sample]):
    """Objects by index, each read when it is asked for, one after another: what a plain ``__getitem__`` gives.

    Args:
        prefix: what the keys begin with.
        keys: the objects' full keys, as the client listed them.

    Raises:
        UsageError: there are none.
    """

    def __init__(self, prefix: str, keys: Sequence[str]) -> None:
        if not keys:
            raise UsageError(
                f"the client's listing has no object under the prefix {prefix!r}: generate the data set, or correct "
                f"the target's bucket and the data's prefix"
            )
        self.prefix = prefix
        self.keys = tuple(keys)

    @abstractmethod
    def read(self, key: str) -> Any:
        """The whole content of one object."""

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Sample:
        key = self.keys[index]
        return key.removeprefix(self.prefix), self.read(key)


class BatchedObjects(ObjectsByIndex):
    """Objects by index, those of a batch read at once: the DataLoader asks for them with ``__getitems__``."""

    @abstractmethod
    def read_batch(self, keys: Sequence[str]) -> Sequence[Any]:
        """The whole content of several objects, in order."""

    def read(self, key: str) -> Any:
        """The whole content of one object."""
        return self.read_batch([key])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        keys = [self.keys[index] for index in indices]
        contents = self.read_batch(keys)
        return [(key.removeprefix(self.prefix), content) for key, content in zip(keys, contents, strict=True)]
