"""torchbucket: its parallel listing into columns, and its store's plain list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bucketbench.clients.listing.protocol import LibraryNames
from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import checked_settings, store_config
from torchbucket.listing import Listing, list_objects
from torchbucket.store import Store, open_store
from torchbucket.uri import ObjectURI

__all__ = ["TorchbucketColumns", "TorchbucketPages"]


class _Opened:
    """A store that is opened when it is first needed.

    Args:
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = checked_settings(settings)
        self._store: Store | None = None

    def _open(self, target: Target) -> Store:
        if self._store is None:
            root = ObjectURI(scheme=target.scheme, bucket=target.bucket)
            self._store = open_store(root, store_config(target, **self._settings))
        return self._store


class TorchbucketColumns(_Opened):
    """``list_objects``: several key ranges at once, into columns."""

    def names(self, target: Target) -> Iterable[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        return LibraryNames(_Pairs(list_objects(self._open(target), target.prefix)))


class TorchbucketPages(_Opened):
    """``Store.list``: one page after another, an ``ObjectInfo`` an object."""

    def names(self, target: Target) -> Iterator[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        for info in self._open(target).list(target.prefix):
            yield info.key, info.size_bytes


class _Pairs:
    """The rows of a listing's columns, made anew by each iteration."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return zip(self._listing.keys, self._listing.sizes_bytes.tolist(), strict=True)
