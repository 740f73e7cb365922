"""Starting a store's thread before its first request."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torchbucket.store.protocol import Store

__all__ = ["start_threads"]


@runtime_checkable
class _Startable(Protocol):
    def start(self) -> None: ...


def start_threads(store: Store) -> None:
    """Have a store start what its first request would, and send nothing.

    For saves in the background: the program may be at its end by their first request, and Python 3.12 starts no thread
    any more when its exit has begun.
    """
    if isinstance(store, _Startable):
        store.start()
