"""obstore, Rust's object_store for Python: ``put`` with parts at once, and a ``get``, whole or in ranges at once."""

from __future__ import annotations

import asyncio
import io
from typing import Any, Final

import torch

from bucketbench.clients.obstore import make_store
from bucketbench.clients.protocol import Target

__all__ = ["Obstore"]

# Source: obstore 0.12, put.
_DEFAULT_PART_BYTES: Final = 5 * 1024 * 1024
_DEFAULT_CONCURRENCY: Final = 12


class Obstore:
    """``torch.save`` into memory and ``put``; ``get``, whole or in ranges, and ``torch.load`` from memory.

    Args:
        part_bytes: length of an uploaded part; 5 MiB is ``put``'s default.
        max_concurrency: parts under way at once; 12 is ``put``'s default.
        range_bytes: length of a range; None reads by one ``get``, since obstore splits none by itself.
        requests: ranges under way at once.
        multipart: whether an upload is split.
    """

    def __init__(
        self,
        *,
        part_bytes: int = _DEFAULT_PART_BYTES,
        max_concurrency: int = _DEFAULT_CONCURRENCY,
        range_bytes: int | None = None,
        requests: int = 16,
        multipart: bool = True,
    ) -> None:
        self._part_bytes = part_bytes
        self._max_concurrency = max_concurrency
        self._range_bytes = range_bytes
        self._requests = requests
        self._multipart = multipart

    def checkpoints(self, target: Target) -> _Checkpoints:
        """The checkpoints below the target's prefix."""
        put: dict[str, Any] = {"chunk_size": self._part_bytes, "max_concurrency": self._max_concurrency}
        if not self._multipart:
            put["use_multipart"] = False
        return _Checkpoints(
            make_store(target), target.prefix, put=put, range_bytes=self._range_bytes, requests=self._requests
        )


class _Checkpoints:
    def __init__(self, store: Any, prefix: str, *, put: dict[str, Any], range_bytes: int | None, requests: int) -> None:
        self._store = store
        self._prefix = prefix
        self._put = put
        self._range_bytes = range_bytes
        self._requests = requests

    def save(self, state: Any, key: str) -> None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        self._store.put(self._prefix + key, buffer.getbuffer(), **self._put)

    def load(self, key: str) -> Any:
        path = self._prefix + key
        buffer = io.BytesIO()
        if self._range_bytes is None:
            for chunk in self._store.get(path):
                buffer.write(chunk)
        else:
            asyncio.run(self._fill(buffer, path, self._range_bytes))
        buffer.seek(0)
        return torch.load(buffer, weights_only=True)

    async def _fill(self, buffer: io.BytesIO, path: str, range_bytes: int) -> None:
        size_bytes = (await self._store.head_async(path))["size"]
        buffer.seek(size_bytes - 1)
        buffer.write(b"\0")  # makes it as long as the object, so that each range goes straight to its place
        turn = asyncio.Semaphore(self._requests)

        async def fetch(start: int, into: memoryview) -> None:
            async with turn:
                into[:] = await self._store.get_range_async(path, start=start, length=len(into))

        with buffer.getbuffer() as view:
            starts = range(0, size_bytes, range_bytes)
            await asyncio.gather(*(fetch(start, view[start : start + range_bytes]) for start in starts))

    def remove(self, key: str) -> None:
        self._store.delete(self._prefix + key)

    def close(self) -> None:
        """The library has nothing to close."""
