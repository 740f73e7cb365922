"""Where a checkpoint is: the store and the key that an address names."""

from __future__ import annotations

from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import ConfigError
from torchbucket.store.protocol import Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = ["key_below", "store_and_key"]


def store_and_key(uri: Address, config: StoreConfig | None) -> tuple[Store, str]:
    """The shared store and the key of an object's address.

    Raises:
        ConfigError: it is none, or that of a bucket or directory.
    """
    check_config(config)
    location = ObjectURI.parse(uri)
    if not location.key or location.key.endswith("/"):
        raise ConfigError(
            f"{str(location)!r} is a bucket or a directory; a checkpoint is an object, such as "
            f"{str(location).rstrip('/') + '/step-100.pt'!r}"
        )
    return shared_store(location, config), location.key


def key_below(base: ObjectURI, name: str) -> str:
    """The key of the object that is called ``name`` below a base address.

    Raises:
        ConfigError: the name is empty, absolute or an address, or has an empty, ``.`` or ``..`` step: on some stores it
            would lead out of the base.
    """
    if (
        not isinstance(name, str)
        or "://" in name
        or "\0" in name
        or any(step in ("", ".", "..") for step in name.split("/"))
    ):
        raise ConfigError(
            f"a checkpoint's key is a path below {str(base)!r}, such as 'run-1/step-100.pt', without empty, '.' or "
            f"'..' steps; got {name!r}"
        )
    return f"{base.key.rstrip('/')}/{name}".lstrip("/")
