"""Makes torchbucket what fsspec opens for s3:// and gs://, and takes that back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

import fsspec
from fsspec.registry import _registry  # fsspec has no call that removes an implementation

from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import ConfigError
from torchbucket.fsspec.filesystem import GcsBucketFileSystem, S3BucketFileSystem
from torchbucket.public import public_in

__all__ = ["register", "unregister"]

_CLASSES: Final = {"s3": S3BucketFileSystem, "gs": GcsBucketFileSystem}

_lock = threading.Lock()
_replaced: dict[str, Any] = {}  # by protocol, what was registered before; None where nothing was


@public_in("torchbucket.fsspec")
def register(
    config: StoreConfig | None = None, clobber: bool = True, *, protocols: str | Iterable[str] = ("s3", "gs")
) -> None:
    """Have fsspec open ``s3://`` (``s3a://``) and ``gs://`` (``gcs://``) by torchbucket, in this process.

    A forked child inherits that; a process that is started afresh calls this again, though a file system that is
    pickled keeps class and settings. Registering again replaces the settings.

    Args:
        config: the settings of file systems that are opened without any of their own; None means the defaults.
        clobber: replace what is registered already, such as s3fs; without, that is a ``ValueError``.
        protocols: ``s3``, ``gs`` or both, since some settings mean something to one of them only.

    Raises:
        ConfigError: another protocol, or settings of another kind.
    """
    check_config(config)
    with _lock:
        for protocol in _chosen(protocols):
            implementation = _CLASSES[protocol]
            for name in implementation.protocol:
                known = fsspec.registry.get(name)
                fsspec.register_implementation(name, implementation, clobber=clobber or known is implementation)
                if known is not implementation:
                    _replaced[name] = known
            implementation.registered_config = config
            implementation.clear_instance_cache()


@public_in("torchbucket.fsspec")
def unregister(protocols: str | Iterable[str] = ("s3", "gs")) -> None:
    """Take ``register`` back: fsspec opens these protocols as it did before. Without a registration it does nothing."""
    with _lock:
        for protocol in _chosen(protocols):
            implementation = _CLASSES[protocol]
            for name in implementation.protocol:
                if fsspec.registry.get(name) is not implementation:
                    continue
                before = _replaced.pop(name, None)
                if before is None:
                    _registry.pop(name, None)
                else:
                    fsspec.register_implementation(name, before, clobber=True)
            implementation.registered_config = None
            implementation.clear_instance_cache()


def _chosen(protocols: str | Iterable[str]) -> list[str]:
    chosen = [protocols] if isinstance(protocols, str) else list(protocols)
    for protocol in chosen:
        if protocol not in _CLASSES:
            raise ConfigError(f"protocols are {' and '.join(_CLASSES)}; got {protocol!r}")
    return chosen
