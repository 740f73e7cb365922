"""Where a data set lies: its store, its prefix, and what is kept beside the prefix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from bucketbench.datagen.errors import DatagenError
from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, NotFoundError, StoreError
from torchbucket.store import Store, open_store
from torchbucket.uri import ObjectURI

__all__ = ["DatasetLocation", "store_config"]


def store_config(**settings: Any) -> StoreConfig:
    """How to reach a store, by fields of ``StoreConfig``.

    Raises:
        DatagenError: one has a value that cannot be used.
    """
    try:
        return StoreConfig(**settings)
    except ConfigError as error:
        raise DatagenError(str(error)) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetLocation:
    """The address of a data set and the settings to reach it; small, picklable, free of secrets.

    Args:
        root: the bucket, or the file system, without a key.
        name: the data set's key without the slash that ends its prefix.
        config: how to reach the store.
    """

    root: ObjectURI
    name: str
    config: StoreConfig

    @classmethod
    def parse(cls, uri: str, config: StoreConfig) -> Self:
        """Take the address of a data set apart.

        ``s3://bucket/datasets/jpeg``, with or without a slash at its end, names all keys below ``datasets/jpeg/``.

        Raises:
            DatagenError: the address is none, has no prefix, or is one of a store that ends with its process.
        """
        try:
            parts = ObjectURI.parse(uri.removesuffix("/"))
        except ConfigError as error:
            raise DatagenError(str(error)) from None
        if parts.scheme == "memory":
            raise DatagenError(f"{uri} would be gone with the process that made it; use s3:// or file://")
        if not parts.key:
            raise DatagenError(f"{uri} has no prefix; a data set needs one, such as {parts.root}/datasets/jpeg")
        root = ObjectURI(scheme=parts.scheme, bucket=parts.bucket)
        return cls(root=root, name=parts.key, config=config)

    @property
    def uri(self) -> str:
        """The data set's address, with the slash that ends its prefix."""
        return self.address_of(self.prefix)

    @property
    def prefix(self) -> str:
        """What the key of every object of the data set begins with."""
        return f"{self.name}/"

    @property
    def manifest_key(self) -> str:
        """The key of the manifest, outside the prefix."""
        return f"{self.name}.manifest.jsonl"

    @property
    def parts_prefix(self) -> str:
        """What the keys of an unfinished data set's pieces of manifest begin with."""
        return f"{self.name}.manifest.parts/"

    def address_of(self, key: str) -> str:
        """The address of an object of the same store."""
        return str(replace(self.root, key=key))

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """Open the store for a ``with`` block, in which its errors come as ``DatagenError`` with what to do."""
        try:
            store = open_store(self.root, self.config)
            try:
                yield store
            finally:
                store.close()
        except (StoreError, ConfigError) as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> DatagenError:
        """A store's error as one of this package, naming the data set."""
        hint = ""
        if isinstance(error, NotFoundError):
            hint = f". Does {self.root.root} exist? It is not created here: create it, or name another"
        return DatagenError(f"the data set {self.uri} could not be reached: {error}{hint}")
