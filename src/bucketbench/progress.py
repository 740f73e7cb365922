"""Progress on standard error: lines that stay, and on a terminal one more below them that is written over.

Standard output is for results. Where standard error is a file or a pipe there are lines alone, none of them with a
carriage return, so that a log reads like any other.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from bucketbench.streams import redirect_to_devnull
from bucketbench.visible import visible

__all__ = ["is_watched", "say", "show_job", "show_sweep"]

_CLEARED = "\r\x1b[2K"  # the beginning of the line, and nothing on it. Source: ECMA-48, EL with parameter 2


class _Status:
    """The last line of a terminal: how far the sweep is, and behind it how far its job is."""

    def __init__(self) -> None:
        self.sweep: Callable[[], str] | None = None
        self.job = ""

    def text(self) -> str:
        """What stands in the line, no longer than the terminal is wide; nothing where there is no terminal."""
        if self.sweep is None or not is_watched():
            return ""
        told = " | ".join(part for part in (self.sweep(), self.job) if part)
        return told[: max(shutil.get_terminal_size().columns - 1, 1)]


_status = _Status()
"""That of the process, whose standard error it is on."""


def is_watched() -> bool:
    """Whether standard error is a terminal."""
    try:
        return sys.stderr.isatty()
    except ValueError:  # it was closed
        return False


def say(line: str) -> None:
    """Write one line of progress at once."""
    text, line = _status.text(), visible(line)  # a server's message, or a name, may be in it
    _write(f"{_CLEARED}{line}\n{text}" if text else f"{line}\n")


def show_sweep(told: Callable[[], str] | None) -> None:
    """Keep a sweep's progress in a terminal's last line.

    Args:
        told: called for its words whenever the line is written; None to have no such line any more.
    """
    if told is None and _status.text():
        _write(_CLEARED)
    _status.sweep, _status.job = told, ""
    _rewrite()


def show_job(text: str) -> None:
    """Show how far the sweep's job is, behind the sweep's progress."""
    _status.job = text
    _rewrite()


def _rewrite() -> None:
    text = _status.text()
    if text:
        _write(f"{_CLEARED}{text}")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        # Nobody reads it any more, or its disk is full: that must cost no job its result.
        redirect_to_devnull(sys.stderr)
