"""Stores: one contract over S3, Cloud Storage, local files and memory, opened by address."""

from __future__ import annotations

from torchbucket.config import StoreConfig, check_config
from torchbucket.public import public
from torchbucket.store.protocol import ObjectData, ObjectInfo, ObjectWriter, OpenUpload, Read, Store
from torchbucket.store.temporary_names import is_temporary
from torchbucket.store.transport.request_record import Observer, RequestRecord
from torchbucket.uri import Address, ObjectURI

__all__ = [
    "ObjectData",
    "ObjectInfo",
    "ObjectWriter",
    "Observer",
    "OpenUpload",
    "Read",
    "RequestRecord",
    "Store",
    "StoreConfig",
    "is_temporary",
    "open_store",
]


@public
def open_store(uri: Address, config: StoreConfig | None = None, *, observer: Observer | None = None) -> Store:
    """Open the bucket or directory that an address names. Nothing is sent before the store is used.

    The store pickles as this call, without credentials and without the observer.

    Args:
        uri: the root, such as ``s3://bucket``, ``gs://bucket``, ``memory://name``, ``file:///directory`` or the path of
            a directory, which keys then follow; or an object's :class:`ObjectURI`, whose root is taken:
            ``location = ObjectURI.parse(address)``, then ``open_store(location).list(location.key)``.
        config: the settings; None means the defaults.
        observer: called with a record of every request over the network, on the store's own thread.

    Raises:
        ConfigError: the text is no address, or that of an object; or a setting means nothing for the provider.
    """
    check_config(config)
    location = uri if isinstance(uri, ObjectURI) else ObjectURI.parse_root(uri)
    settings = config if config is not None else StoreConfig()
    if location.scheme == "memory":
        from torchbucket.store.memory import MemoryStore

        return MemoryStore(location, settings)
    if location.scheme == "file":
        from torchbucket.store.file.store import FileStore

        return FileStore(location, settings)
    if location.scheme == "s3":
        from torchbucket.store.s3.store import S3Store

        return S3Store(location, settings, observer=observer)
    from torchbucket.store.gcs.store import GcsStore

    return GcsStore(location, settings, observer=observer)
