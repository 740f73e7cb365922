"""The objects behind a data set: where they are, which they are, and a store of this process to read them with."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future
from typing import Any, Final

from torchbucket.config import StoreConfig
from torchbucket.datasets.shared_block import is_being_sent_to_a_child
from torchbucket.datasets.shared_listing import SharedListing
from torchbucket.errors import ConfigError, NotFoundError
from torchbucket.files.reader import ObjectReader
from torchbucket.listing import Listing
from torchbucket.store import Read
from torchbucket.store.protocol import ObjectData, Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import ObjectURI, key_bytes

__all__ = ["NONE_SELECTED", "ObjectSource", "nothing_found", "read_result"]

_SHARED_LISTING_BYTES: Final = 1 << 20  # below that a copy is as good as a mapping with its open file
NONE_SELECTED: Final = "select kept none of the {seen} objects under it"
_NO_OBJECT: Final = "no object's name begins with it (a prefix is plain text; a directory's ends with '/')"
_DIGESTED_NAMES: Final = 4096  # takes some 10 ms, however large the data set is


class ObjectSource:
    """A listing, and the store that its objects are in.

    Pickles as addresses, settings and columns, without a connection or a credential; child processes that are sent it
    (spawn, forkserver) share the columns of a large listing with the sender and one another. A process opens a store of
    its own with the first read; after a fork the store itself starts afresh in the child.

    Args:
        root: the bucket or directory.
        config: how to reach it; None means ``StoreConfig()``.
        listing: the objects, in the data set's order.
        prefix: what was listed; None where nothing was.
        pinned: read each object in its listed version, and no other.
        allow_empty: nothing to read is no error.
        store: one that is open already; None opens one when it is needed.

    Raises:
        ConfigError: the listing has no versions to pin.
    """

    def __init__(
        self,
        root: ObjectURI,
        config: StoreConfig | None,
        listing: Listing,
        *,
        prefix: str | None = None,
        pinned: bool = False,
        allow_empty: bool = False,
        store: Store | None = None,
    ) -> None:
        if pinned and listing and listing.versions is None:
            raise ConfigError(
                f"pin_versions: the listing of {root} has no versions. Make the manifest with them (versions=True), or "
                "leave the objects unpinned"
            )
        self.root = root
        self.allow_empty = allow_empty
        self._pinned = pinned
        self.prefix = prefix
        self._base = str(root)  # ends with the slash before a key
        self._config = config
        self._store = store
        self._largest_bytes: int | None = None
        self._shared: SharedListing | None = None
        self.listing = listing

    @property
    def store(self) -> Store:
        """The store of this process, opened when it is first needed; other data sets may share it."""
        store = self._store
        if store is None:
            store = self._store = shared_store(self.root, self._config)
        return store

    @property
    def config(self) -> StoreConfig | None:
        """How to reach the bucket; None means ``StoreConfig()``."""
        return self._config

    def uri(self, position: int) -> str:
        """The address of the object at a position of the listing."""
        return self._base + self.listing.keys[position]

    def size_bytes(self, position: int) -> int | None:
        """The size of the object at a position of the listing; None where it is not known."""
        return self.listing.size_bytes(position)

    def names_digest(self) -> str:
        """A short digest of the names, by which a state finds that it belongs to other objects.

        Of all names, or of evenly spaced ones among very many: a name more or less shifts those after it. Of what
        follows the listed directory, so that a state goes on over a copy that lies elsewhere.
        """
        keys = self.listing.keys
        prefix = self.prefix or ""
        shared = len(key_bytes(prefix[: prefix.rfind("/") + 1]))
        digest = hashlib.blake2b(digest_size=8)
        for position in range(0, len(keys), -(-len(keys) // _DIGESTED_NAMES) or 1):
            name = key_bytes(keys[position])[shared:]
            digest.update(b"%d %b" % (len(name), name))
        return digest.hexdigest()

    @property
    def largest_bytes(self) -> int | None:
        """The size of the largest object that this process has read; None before the first."""
        return self._largest_bytes

    def note_size(self, size_bytes: int) -> None:
        """Remember the size of an object that was read."""
        self._largest_bytes = max(size_bytes, self._largest_bytes or 0)

    def submit_read(self, position: int) -> Future[ObjectData]:
        """Begin to read a whole object."""
        return self.store.submit_read(
            Read(
                key=self.listing.keys[position],
                size_bytes=self.listing.size_bytes(position),
                version=self.pinned_version(position),
            )
        )

    def pinned_version(self, position: int) -> str | None:
        """The version in which an object must be read; None where any will do."""
        if not self._pinned:
            return None
        version = self.listing.version(position)
        if version is None:
            raise ConfigError(f"pin_versions: the server told no version of {self.uri(position)} when it was listed")
        return version

    def open_lazily(self, position: int) -> ObjectReader:
        """Open an object that is read in ranges when they are needed."""
        return ObjectReader.lazy(
            self.store,
            self.listing.keys[position],
            uri=self.uri(position),
            size_bytes=self.listing.size_bytes(position),
            version=self.pinned_version(position),
        )

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__ | {"_store": None}
        if is_being_sent_to_a_child() and self.listing.nbytes >= _SHARED_LISTING_BYTES:
            if self._shared is None:
                self._shared = SharedListing(self.listing)
                # From now on this process reads the shared columns too, and has no second ones.
                self.listing = self._shared.opened()
            return state | {"listing": None, "_shared": self._shared}
        return state | {"_shared": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        if self._shared is not None:
            self.listing = self._shared.opened()


def read_result(future: Future[ObjectData], uri: str) -> ObjectData:
    """Wait for a read; an error that does not name the object gets a note that does."""
    try:
        return future.result()
    except Exception as error:
        if uri not in str(error):
            error.add_note(f"while reading {uri}")
        raise


def nothing_found(uri: str, seen: int, none_selected: str, none_listed: str = _NO_OBJECT) -> NotFoundError:
    """The error for a data set of nothing: there were no objects, or none of those seen was selected."""
    found = none_selected if seen else none_listed
    return NotFoundError(
        f"list {uri}: {found.format(seen=seen)}. Correct the prefix, or pass allow_empty=True if that may be",
        operation="list",
        uri=uri,
    )
