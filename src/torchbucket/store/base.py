"""What every store shares: the check of arguments, address and settings, and pickling."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, ObjectChangedError
from torchbucket.store.arguments import Bytes, byte_count, byte_view, check_key
from torchbucket.store.conditions import Condition, condition_of
from torchbucket.store.protocol import GAP_BYTES, ObjectInfo, ObjectWriter, Read, Store, Target
from torchbucket.store.scatter import checked_targets
from torchbucket.uri import ObjectURI

__all__ = ["BaseStore", "changed", "check_same", "refuse_fields"]


class BaseStore(Store):
    """The part of a store that is the same for all. A subclass does what is asked, of arguments that are checked here.

    Each store is made of an ``ObjectURI`` and its settings.

    Args:
        uri: the root's address.
        config: settings; a store that needs none ignores them but hands them on when pickled.
    """

    def __init__(self, uri: str, config: StoreConfig) -> None:
        self._uri = uri
        self._config = config

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def config(self) -> StoreConfig:
        """The settings that the store was opened with."""
        return self._config

    def address(self, key: str) -> str:
        """The full address of an object."""
        return f"{self._uri}/{key}" if not self._uri.endswith("/") else f"{self._uri}{key}"

    def submit_read_into(
        self,
        key: str,
        targets: Sequence[Target],
        *,
        size_bytes: int | None = None,
        version: str | None = None,
        gap_bytes: int = GAP_BYTES,
        filled: Callable[[int], None] | None = None,
    ) -> Future[ObjectInfo]:
        read = Read(key=key, size_bytes=size_bytes, version=version)
        return self._fill(read, checked_targets(targets), byte_count("gap_bytes", gap_bytes), filled)

    @abstractmethod
    def _fill(
        self, read: Read, targets: Sequence[Target], gap_bytes: int, filled: Callable[[int], None] | None
    ) -> Future[ObjectInfo]:
        """Begin to fill targets of flat memory from the object, size and version that ``read`` names."""

    def open_writer(
        self, key: str, *, size_hint: int | None = None, if_absent: bool = False, if_version: str | None = None
    ) -> ObjectWriter:
        check_key(key)
        hint = None if size_hint is None else byte_count("size_hint", size_hint)
        return self._open_writer(key, hint, condition_of(if_absent, if_version))

    @abstractmethod
    def _open_writer(self, key: str, size_hint: int | None, condition: Condition | None) -> ObjectWriter:
        """Begin a streamed write, published on the condition."""

    def write_from(
        self,
        key: str,
        pieces: Sequence[Bytes],
        *,
        if_absent: bool = False,
        if_version: str | None = None,
        multipart: bool = True,
    ) -> ObjectInfo:
        check_key(key)
        condition = condition_of(if_absent, if_version)
        return self._write_from(key, [byte_view(piece) for piece in pieces], condition, multipart)

    def _write_from(
        self,
        key: str,
        pieces: Sequence[memoryview],
        condition: Condition | None,
        multipart: bool,  # noqa: ARG002  # a store without requests knows no parts
    ) -> ObjectInfo:
        """Write an object from flat memory, on the condition."""
        with self._open_writer(key, sum(map(len, pieces)), condition) as writer:
            writer.writelines(pieces)
        return writer.info

    def delete(self, key: str, *, if_version: str | None = None) -> None:
        check_key(key)
        self._delete(key, condition_of(False, if_version))

    @abstractmethod
    def _delete(self, key: str, condition: Condition | None) -> None:
        """Remove an object, on the condition."""

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


def changed(operation: str, uri: str, version: str | None, status: int) -> ObjectChangedError:
    """The error for an answer of that status, which says that the object has another version than was asked for."""
    return ObjectChangedError(
        f"{operation} {uri}: the object no longer has the version {version}: it was overwritten or removed while "
        "it was read or copied; list or head it again",
        operation=operation,
        uri=uri,
        status=status,
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
