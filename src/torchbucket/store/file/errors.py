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
    said = f"{operation} {uri}"
    if isinstance(error, FileExistsError):
        advice = "the object exists and if_absent was asked for; delete it or write without if_absent"
        return PreconditionFailedError(f"{said}: {advice}", operation=operation, uri=uri)
    if isinstance(error, IsADirectoryError | NotADirectoryError) and operation == "write":
        advice = (
            "the key, or one that it begins with, would be both a file and a directory, which object stores allow and "
            "file systems do not; rename one"
        )
        return UnsupportedError(f"{said}: {advice}", operation=operation, uri=uri)
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        advice = "there is no such file; check the key, or list what is there"
        return NotFoundError(f"{said}: {advice}", operation=operation, uri=uri)
    if isinstance(error, PermissionError):
        advice = (
            f"the operating system refused ({error.strerror}); check owner and mode of the file and its directories"
        )
        return PermissionDeniedError(f"{said}: {advice}", operation=operation, uri=uri)
    return StoreError(f"{said}: {error.strerror or error}; check the file system", operation=operation, uri=uri)
