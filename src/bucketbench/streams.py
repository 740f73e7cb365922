"""Standard output and standard error whose reader has gone away, as after ``2>&1 | head``, or whose disk is full."""

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
    """Have a command do all that it was asked for, with its own exit status, though its output is not taken any more.

    Within it a pipe at standard output that is closed swallows what is written, and a standard stream that was closed
    when the process began (``>&-``) leads nowhere. So does standard output from its first failure on, such as that of a
    full disk, which is raised at the end. An output of another kind, such as a test's, is left as it is.

    Raises:
        OSError: not all of standard output could be written, which somebody would have read.
    """
    before = sys.stdout, sys.stderr
    output: _MayEnd | None = None
    with contextlib.ExitStack() as opened:
        if sys.stdout is None:
            sys.stdout = opened.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        elif sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
            output = _MayEnd(sys.stdout.fileno(), "w", closefd=False)
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(output),
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
    if output is not None and output.failure is not None:
        raise output.failure


class _MayEnd(io.FileIO):
    """A descriptor that leads nowhere from its first failure on; ``failure`` has it, unless it is a broken pipe's."""

    failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = error
            _redirect(self.fileno())
            return super().write(data)


def _redirect(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
