"""Where a distributed checkpoint is: the objects below one address."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from torchbucket.checkpoint.location import key_below
from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.store.protocol import Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = ["CheckpointDirectory", "name_of_rank"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointDirectory:
    """The store and the key that a checkpoint's files follow.

    Args:
        location: its address.
        store: what holds it.
    """

    location: ObjectURI
    store: Store

    @classmethod
    def at(cls, uri: Address, config: StoreConfig | None) -> Self:
        """The directory at an address, with or without a slash.

        Raises:
            ConfigError: it is no address, or that of a whole bucket.
        """
        check_config(config)
        location = ObjectURI.parse(uri)
        if not location.key.strip("/"):
            raise ConfigError(
                f"{str(location)!r} is a whole bucket; a distributed checkpoint is a directory of its own, such as "
                f"{str(location).rstrip('/') + '/run-1/step-100'!r}"
            )
        return cls(location=location, store=shared_store(location, config))

    @classmethod
    def is_at(cls, uri: Any) -> bool:
        """Whether this is an address that a checkpoint can have."""
        try:
            cls.at(uri, None)
        except ConfigError:
            return False
        return True

    @property
    def uri(self) -> str:
        """The address, without a slash."""
        return str(self.location).rstrip("/")

    @property
    def prefix(self) -> str:
        """What the keys of its files begin with."""
        return f"{self.location.key.rstrip('/')}/"

    def below(self, name: str) -> Self:
        """A directory in it."""
        location = ObjectURI(scheme=self.location.scheme, bucket=self.location.bucket, key=self.key(name))
        return dataclasses.replace(self, location=location)

    def key(self, name: str) -> str:
        """The key of one of its files.

        Raises:
            CheckpointError: the name, which another program may have written, leads out of the directory.
        """
        try:
            return key_below(self.location, name)
        except ConfigError as error:
            raise CheckpointError(
                f"{self.uri}: the metadata names the file {name!r}, which is no path below the checkpoint", uri=self.uri
            ) from error

    def file_uri(self, name: str) -> str:
        """The address of one of its files, for messages."""
        return f"{self.uri}/{name}"


def name_of_rank(name: str, rank: int | None) -> str:
    """What the metadata or the manifest is called, of which each rank has its own where it is by itself."""
    return name if rank is None else f"__{rank}{name}"
