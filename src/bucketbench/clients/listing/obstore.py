"""obstore, Rust's object_store for Python: its stream of listed objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bucketbench.clients.obstore import make_store
from bucketbench.clients.protocol import Target

__all__ = ["ObstoreArrow", "ObstoreStream"]


class ObstoreStream:
    """``obstore.list``: one page after another, handed over in chunks.

    Args:
        chunk_size: names of a chunk; 50 is obstore's default. *Source*: obstore, ``list``.
    """

    def __init__(self, *, chunk_size: int = 50) -> None:
        self._chunk_size = chunk_size
        self._store: Any = None

    def names(self, target: Target) -> Iterator[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        import obstore

        if self._store is None:
            self._store = make_store(target)
        for chunk in obstore.list(self._store, target.prefix, chunk_size=self._chunk_size):
            for item in chunk:
                yield item["path"], item["size"]


class ObstoreArrow:
    """``obstore.list`` with ``return_arrow=True``: chunks as Arrow record batches, whose columns become names here.

    *Source:* obstore, ``list``: with it no dictionary is made for each object. It needs the package arro3-core.

    Args:
        chunk_size: names of a chunk; 50 is obstore's default.
    """

    def __init__(self, *, chunk_size: int) -> None:
        self._chunk_size = chunk_size
        self._store: Any = None

    def names(self, target: Target) -> Iterator[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        import obstore

        if self._store is None:
            self._store = make_store(target)
        for batch in obstore.list(self._store, target.prefix, chunk_size=self._chunk_size, return_arrow=True):
            yield from zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True)
