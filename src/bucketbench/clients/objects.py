"""Map data sets over listed objects: what the adapters of clients without a data set of their own share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.process_local import ProcessLocal
from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["BatchedObjects", "ObjectsByIndex", "ObjectsOnThreads", "ObjectsOneByOne", "Read", "Sample"]

Sample = tuple[str, Any]
"""An object's key, relative to the target's prefix, and its content, a bytes-like object."""


Read = Callable[[Any, str, str], bytes]
"""Reads an object: takes a library's client, a bucket and a key. Must be picklable."""


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


class ObjectsOneByOne(ObjectsByIndex):
    """Objects read by a library's client, one after another.

    Args:
        target: where they are.
        keys: their full keys.
        make_client: makes a process's client; must be picklable.
        read: reads one object.
    """

    def __init__(self, target: Target, keys: Sequence[str], make_client: Callable[[], Any], read: Read) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._client = ProcessLocal(make_client)
        self._read = read

    def read(self, key: str) -> bytes:
        """The whole content of one object."""
        return self._read(self._client.get(), self._bucket, key)


class ObjectsOnThreads(BatchedObjects):
    """Objects of a batch read at once by a library's client, each by a thread of a pool that stays.

    Args:
        target: where they are.
        keys: their full keys.
        make_client: makes a process's client, which its threads share; must be picklable.
        read: reads one object.
        threads: how many in each process.
    """

    def __init__(
        self, target: Target, keys: Sequence[str], make_client: Callable[[], Any], read: Read, *, threads: int
    ) -> None:
        super().__init__(target.prefix, keys)
        self._bucket = target.bucket
        self._client = ProcessLocal(make_client)
        self._read = read
        self._threads = ProcessLocal(partial(ThreadPoolExecutor, threads))

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        """The whole content of several objects, in order."""
        return list(self._threads.get().map(partial(self._read, self._client.get(), self._bucket), keys))
