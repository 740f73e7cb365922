"""Standard output and standard error whose reader has gone away, as after ``2>&1 | head``."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["output_that_may_end", "redirect_to_devnull"]


def redirect_to_devnull(stream: TextIO) -> None:
    """Let what the stream still holds, and all that is yet written to it, go nowhere.

    Python flushes both streams when it exits, and exits with status 120 where that fails.
    """
    _redirect(stream.fileno())


@contextlib.contextmanager
def output_that_may_end() -> Iterator[None]:
    """Have a command do all that it was asked for, with its own exit status, though nobody reads its output any more.

    Within it a pipe at standard output that is closed swallows what is written, and a standard stream that was closed
    when the process began (``>&-``) leads nowhere. An output of another kind, such as a test's, is left as it is.
    """
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        if sys.stdout is None:
            sys.stdout = opened.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        elif sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(_MayEnd(sys.stdout.fileno(), "w", closefd=False)),
                encoding=sys.stdout.encoding,
                errors=sys.stdout.errors,
                line_buffering=sys.stdout.line_buffering,
            )
        if sys.stderr is None:
            sys.stderr = opened.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        try:
            yield
            sys.stdout.flush()
        finally:
            sys.stdout, sys.stderr = before


class _MayEnd(io.FileIO):
    """A descriptor that leads nowhere from its first broken pipe on."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _redirect(self.fileno())
            return super().write(data)


def _redirect(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
