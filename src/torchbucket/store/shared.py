"""One store for all that read the same bucket with the same settings in a process."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.store import open_store
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.protocol import Store
from torchbucket.uri import ObjectURI

__all__ = ["shared_store"]

# What else says where a bucket is, as whom and through what it is reached: botocore's, google-auth's, Cloud Storage's
# emulator's, and those of certificates and proxies.
_ENVIRONMENT: Final = ("AWS_", "GOOGLE_", "STORAGE_", "SSL_", "REQUESTS_", "HTTP", "ALL_", "NO_")


class _SharedStores:
    """The stores in use, which end with the last of their users."""

    def __init__(self) -> None:
        self.stores: weakref.WeakValueDictionary[tuple[str, StoreConfig, bytes], Store] = weakref.WeakValueDictionary()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Replace the lock in a forked child; its stores start afresh by themselves."""
        self.lock = threading.RLock()  # reentrant: the collector may run anything while it is held


_shared = _SharedStores()


def shared_store(location: ObjectURI, config: StoreConfig | None) -> Store:
    """The store of an address's bucket or directory; every call with the same settings returns the same one.

    Data sets share their connections, threads and credentials so. Safe for use by several threads, and after a fork.

    Args:
        location: any object or prefix of the bucket.
        config: the settings; None means the defaults.

    Raises:
        ConfigError: a setting means nothing for the provider.
    """
    settings = config if config is not None else StoreConfig()
    key = (location.root, settings, _environment_digest())
    with _shared.lock:
        store = _shared.stores.get(key)
        if store is None:
            store = _shared.stores[key] = open_store(location, settings)
        return store


def _environment_digest() -> bytes:
    """A digest, since the values may be secrets."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(os.environ.items()):
        if name.upper().startswith(_ENVIRONMENT):
            digest.update(f"{len(name)} {name}={len(value)} {value}".encode(errors="surrogateescape"))
    return digest.digest()
