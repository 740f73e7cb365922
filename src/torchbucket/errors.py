"""The errors of torchbucket: one root, few classes, each saying what was tried, what arrived and what to do next."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from torchbucket.dataloader_worker import in_dataloader_worker
from torchbucket.public import public

__all__ = [
    "ArchiveError",
    "CheckpointError",
    "ChecksumError",
    "ConfigError",
    "NotFoundError",
    "ObjectChangedError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "StoreError",
    "ThrottledError",
    "TorchbucketError",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
]


@public
class TorchbucketError(Exception):
    """Root of every error that torchbucket raises on purpose.

    Pickling keeps the fields and notes of an error. A DataLoader does not pickle what a worker raises: it makes an
    error of the same type from the traceback's text alone. So an error that is made in a worker carries its fields in a
    note, which is part of that text, and takes them from there.

    Args:
        message: what was tried, what arrived and what to do next; never a secret.
        fields: what a class tells beside its message.
    """

    # The fields by name, with what each is where nobody said.
    _FIELDS: ClassVar[Mapping[str, str | int | None]] = {}

    def __init__(self, message: str = "", **fields: str | int | None) -> None:
        message, carried = _taken_apart(message) if self._FIELDS else (message, {})
        super().__init__(message)
        self.message = message
        for name, default in self._FIELDS.items():
            setattr(self, name, carried.get(name, fields.get(name, default)))
        self._note_fields()

    def __str__(self) -> str:
        return self.message

    def amend(self, **fields: str | int | None) -> Self:
        """Correct fields, such as the attempts, of an error that was made where they were not known."""
        for name, value in fields.items():
            setattr(self, name, value)
        self._note_fields()
        return self

    def _note_fields(self) -> None:
        if not self._FIELDS or not in_dataloader_worker():
            return
        others = [note for note in getattr(self, "__notes__", ()) if not note.startswith(_NOTE)]
        self.__notes__ = [*others, _NOTE + json.dumps({name: getattr(self, name) for name in self._FIELDS})]

    def __reduce__(self) -> tuple[Any, ...]:
        # The default cannot pass keyword-only fields.
        notes = [note for note in getattr(self, "__notes__", ()) if not note.startswith(_NOTE)]
        fields = {name: getattr(self, name) for name in self._FIELDS}
        return _rebuilt, (type(self), self.message, fields, notes)


def _rebuilt(
    kind: type[TorchbucketError], message: str, fields: dict[str, str | int | None], notes: list[str]
) -> TorchbucketError:
    error = kind(message, **fields)
    for note in notes:
        error.add_note(note)
    return error


_NOTE: Final = "fields of the error: "
_NOTE_LINE: Final = re.compile(rf"^{_NOTE}(\{{.*\}})\n?", re.MULTILINE)


def _taken_apart(message: str) -> tuple[str, dict[str, str | int | None]]:
    """The text that a DataLoader made of a worker's error without the note of its fields, and the fields.

    *Source:* torch 2.13, ``torch/_utils.py``, ``ExceptionWrapper.reraise``.
    """
    if not message.startswith("Caught "):
        return message, {}
    # The last note is the error's own: what it was raised from stands before it.
    note = None
    for note in _NOTE_LINE.finditer(message):  # noqa: B007  # the last one is wanted
        pass
    return (message, {}) if note is None else (_NOTE_LINE.sub("", message), json.loads(note[1]))


@public
class ConfigError(TorchbucketError, ValueError):
    """A setting or a URI has a wrong value; the message names the field and what it accepts."""


@public
class ArchiveError(TorchbucketError, ValueError):
    """A shard is no tar archive, or a damaged, cut or unsupported one; no sample of it is left out silently.

    Args:
        message: the shard's address, what is wrong where, and what to do.
        uri: the shard's address.
        offset: where in the shard, in bytes from its beginning.
    """

    _FIELDS: ClassVar[Mapping[str, str | int | None]] = {"uri": "", "offset": 0}
    uri: str
    offset: int

    def __init__(self, message: str, *, uri: str = "", offset: int = 0) -> None:
        super().__init__(message, uri=uri, offset=offset)


@public
class CheckpointError(TorchbucketError, ValueError):
    """A checkpoint's file is of no known format, damaged or cut, or does not fit the files beside it.

    Args:
        message: the file's address, what is wrong with it, and what to do.
        uri: the file's address.
    """

    _FIELDS: ClassVar[Mapping[str, str | int | None]] = {"uri": ""}
    uri: str

    def __init__(self, message: str, *, uri: str = "") -> None:
        super().__init__(message, uri=uri)


@public
class StoreError(TorchbucketError, OSError):
    """An operation on a store failed.

    Args:
        message: what was tried, what arrived and what to do next; never a secret.
        operation: the store's method or request, such as ``get_object``.
        uri: the object's or the bucket's address.
        status: HTTP status, where an answer arrived.
        code: the provider's own error code, such as ``SlowDown``.
        attempts: how many requests were made before giving up.
        others: the fields of a class derived from this one.
    """

    _FIELDS: ClassVar[Mapping[str, str | int | None]] = {
        "operation": "",
        "uri": "",
        "status": None,
        "code": None,
        "attempts": 1,
    }
    operation: str
    uri: str
    status: int | None
    code: str | None
    attempts: int

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        uri: str = "",
        status: int | None = None,
        code: str | None = None,
        attempts: int = 1,
        **others: str | int | None,
    ) -> None:
        super().__init__(message, operation=operation, uri=uri, status=status, code=code, attempts=attempts, **others)


@public
class NotFoundError(StoreError, FileNotFoundError):
    """The object or the bucket does not exist."""


@public
class PermissionDeniedError(StoreError, PermissionError):
    """The credentials are missing, wrong, expired or do not allow the operation."""


@public
class ThrottledError(StoreError):
    """The provider asked to slow down, and still did after all attempts."""


@public
class PreconditionFailedError(StoreError):
    """A conditional write found the key already present, or changed."""


@public
class ObjectChangedError(StoreError):
    """The object was overwritten or removed while it was read; nothing mixed is ever returned."""


@public
class TruncatedError(StoreError):
    """Fewer bytes arrived than were announced, after all attempts."""


@public
class ChecksumError(StoreError):
    """Bytes arrived whose checksum is not the one that the provider keeps of the object, after all attempts.

    Args:
        message: which object, what was compared, and what to do next.
        algorithm: the checksum's name, such as ``crc64nvme``.
        expected: what the provider says, as it writes it.
        computed: what the bytes have, written in the same way.
        context: the fields of ``StoreError``.
    """

    _FIELDS: ClassVar[Mapping[str, str | int | None]] = {
        **StoreError._FIELDS,
        "algorithm": "",
        "expected": "",
        "computed": "",
    }
    algorithm: str
    expected: str
    computed: str

    def __init__(
        self, message: str, *, algorithm: str = "", expected: str = "", computed: str = "", **context: Any
    ) -> None:
        super().__init__(message, algorithm=algorithm, expected=expected, computed=computed, **context)


@public
class TransportError(StoreError):
    """No usable answer arrived after all attempts: no connection, a reset, a stall, a TLS failure, a server error."""


@public
class UnsupportedError(StoreError, NotImplementedError):
    """The store cannot do this at all."""
