"""What a client of the listing scenario provides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from bucketbench.clients.protocol import Target

__all__ = ["LibraryNames", "ListingClient"]


class ListingClient(Protocol):
    """A way of listing a prefix: a small class, built from the ``options`` of its configuration.

    It makes its connections when it first lists and keeps them for the next time, but no names: each call of ``names``
    lists anew. A client that gets names one page after another yields them as they come; one that returns when all are
    there returns what its library gave it, so that the memory of that counts (see :class:`LibraryNames`).
    """

    def names(self, target: Target) -> Iterable[tuple[str, int]]:
        """Every object whose key begins with the target's prefix: its full key and its size in bytes, in any order."""
        ...


class LibraryNames:
    """Names in the library's own form, kept as they are and made pairs of key and size one by one.

    Args:
        found: what the library returned, which can be iterated.
        pair: makes a pair of one item of it; None where the items are pairs.
    """

    def __init__(self, found: Iterable[Any], pair: Callable[[Any], tuple[str, int]] | None = None) -> None:
        self._found = found
        self._pair = pair

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._found) if self._pair is None else map(self._pair, self._found)
