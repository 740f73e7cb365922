"""Files that a report is written to: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bucketbench.errors import ResultsError

__all__ = ["write_whole"]


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Give a path to write to, and put the file in its place when it is written; a reader sees the old one or the new.

    Args:
        path: where the file shall be; its directory must be there.

    Raises:
        ResultsError: the file could not be written; what was at ``path`` before is still there.
    """
    if path.is_dir():
        raise ResultsError(f"{path} is a directory: name a file in it")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise ResultsError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
