"""What an error of the operating system means for an object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchbucket.errors import (
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    UnsupportedError,
)
from torchbucket.store.conditions import Condition

__all__ = ["explained"]


@contextmanager
def explained(operation: str, uri: str) -> Iterator[None]:
    """Raise the store's own error for an ``OSError`` of the block, with the original as its cause."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise _meaning(error, operation, uri) from error


def _meaning(error: OSError, operation: str, uri: str) -> StoreError:
    kind: type[StoreError] = StoreError
    advice = f"{error.strerror or error}; check the file system"
    if isinstance(error, FileExistsError):
        kind, advice = PreconditionFailedError, Condition(version=None).advice
    elif isinstance(error, IsADirectoryError | NotADirectoryError) and operation == "write":
        kind = UnsupportedError
        advice = (
            "the key, or one that it begins with, would be both a file and a directory, which object stores allow and "
            "file systems do not; rename one"
        )
    elif isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        kind, advice = NotFoundError, "there is no such file; check the key, or list what is there"
    elif isinstance(error, PermissionError):
        kind = PermissionDeniedError
        advice = f"the operating system refused ({error.strerror}); check who may use the file and its directories"
    return kind(f"{operation} {uri}: {advice}", operation=operation, uri=uri)
