"""What every store shares: the calls that are made of others, the check of arguments, and pickling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, ObjectChangedError
from torchbucket.store.arguments import Bytes, byte_view
from torchbucket.store.protocol import ObjectData, ObjectInfo, ObjectWriter, Read
from torchbucket.uri import ObjectURI

__all__ = [
    "BaseStore",
    "check_same",
    "refuse_fields",
]


class BaseStore:
    """The part of a store that follows from the rest of it. Each store is made of an ``ObjectURI`` and its settings.

    Args:
        uri: the root's address.
        config: settings; a store that needs none ignores them but hands them on when pickled.
    """

    def __init__(self, uri: str, config: StoreConfig) -> None:
        self._uri = uri
        self._config = config

    @property
    def uri(self) -> str:
        """The root's address, such as ``s3://bucket``."""
        return self._uri

    @property
    def lists_by_walking(self) -> bool:
        """False: a page is one request, wherever it begins."""
        return False

    @property
    def config(self) -> StoreConfig:
        """The settings that the store was opened with."""
        return self._config

    def read(self, key: str, *, start: int = 0, stop: int | None = None, version: str | None = None) -> ObjectData:
        """Read the bytes ``[start, stop)`` of an object and wait for them."""
        future = self.submit_read(Read(key=key, start=start, stop=stop, version=version))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            del future  # An error keeps the frames that it passes, which must not keep it in turn.

    def write(self, key: str, data: Bytes, *, if_absent: bool = False, if_version: str | None = None) -> ObjectInfo:
        """Write a whole object from memory; it appears whole or not at all."""
        return self.write_from(key, (data,), if_absent=if_absent, if_version=if_version)

    def write_from(
        self, key: str, pieces: Sequence[Bytes], *, if_absent: bool = False, if_version: str | None = None
    ) -> ObjectInfo:
        """Write a whole object from pieces of memory, one after another; it appears whole or not at all."""
        views = [byte_view(piece) for piece in pieces]
        size_hint = sum(map(len, views))
        with self.open_writer(key, size_hint=size_hint, if_absent=if_absent, if_version=if_version) as writer:
            writer.writelines(views)
        return writer.info

    def submit_read(self, read: Read) -> Future[ObjectData]:
        """Begin a read; see the protocol."""
        raise NotImplementedError

    def open_writer(
        self, key: str, *, size_hint: int | None = None, if_absent: bool = False, if_version: str | None = None
    ) -> ObjectWriter:
        """Begin a streamed write; see the protocol."""
        raise NotImplementedError

    def address(self, key: str) -> str:
        """The full address of an object."""
        return f"{self._uri}/{key}" if not self._uri.endswith("/") else f"{self._uri}{key}"

    def __reduce__(self) -> tuple[object, ...]:
        # A store crosses to another process as its recipe: no connection, no thread, no credential, no observer.
        return type(self), (ObjectURI.parse_root(self._uri), self._config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r}, {self._config!r})"


def check_same(
    uri: str, info: ObjectInfo, *, size_bytes: int | None, version: str | None, operation: str = "read"
) -> None:
    """Raise ``ObjectChangedError`` unless the object found has the size and version that the reader counts on."""
    if size_bytes not in (None, info.size_bytes) or version not in (None, info.version):
        wanted = ", ".join(
            f"{name} {value}" for name, value in (("size", size_bytes), ("version", version)) if value is not None
        )
        raise ObjectChangedError(
            f"{operation} {uri}: expected {wanted}; found size {info.size_bytes}, version {info.version}: the object "
            "was overwritten since; list or head it again",
            operation=operation,
            uri=uri,
        )


def refuse_fields(config: StoreConfig, uri: str, meaningless: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` where a setting was given that the provider does not know.

    Args:
        config: the settings.
        uri: the bucket's address.
        meaningless: fields, and what to do instead.
    """
    for field in fields(config):
        if field.name in meaningless and getattr(config, field.name) != field.default:
            raise ConfigError(
                f"StoreConfig.{field.name} means nothing for {uri}: {meaningless[field.name]}; leave it out"
            )
