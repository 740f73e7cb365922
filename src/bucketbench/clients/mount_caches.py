"""Whether a mounted file system would deliver what was read before from this machine, and not from the bucket."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import psutil

__all__ = ["caching_options", "kept_bytes", "mount_cache"]

_CACHE_OPTIONS: Final = {
    "rclone": ("--vfs-cache-mode", "--cache-dir"),
    "mount-s3": ("--cache", "--cache-xz"),
    "gcsfuse": ("--file-cache-max-size-mb", "--cache-dir", "--config-file"),
}
"""Options with which these programs keep content in a cache of their own. *Source*: rclone, "VFS file caching";
Mountpoint for Amazon S3, "Caching configuration"; Cloud Storage FUSE, "Use file caching" (whose configuration file
may say the same)."""


def mount_cache(mounted: Path, file: Path) -> str | None:
    """What keeps content of a mount on this machine, in words; None where nothing was found that does.

    Args:
        mounted: the directory that is mounted.
        file: one of its files, not empty, which is read whole for this.
    """
    with file.open("rb") as reader:
        while reader.read(1 << 20):
            pass
    if kept := kept_bytes(file):
        return f"the kernel's page cache still has {kept:,} bytes of {file.name} when it is opened again"
    return caching_options(mounted, (process.cmdline() for process in _processes()))


def kept_bytes(path: Path) -> int:
    """How many bytes of a file are in the page cache just after it was opened, in whole pages.

    Opening counts: a FUSE file system that keeps nothing drops the pages of a file when it is opened. *Source*: Linux,
    "FUSE I/O modes", and mincore(2).
    """
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if not size_bytes:
            return 0
        pages = np.zeros(-(-size_bytes // mmap.PAGESIZE), np.uint8)
        try:
            mapped = mmap.mmap(file.fileno(), size_bytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        except OSError:  # what is read past the page cache may refuse to be mapped
            return 0
        with mapped:
            content = np.frombuffer(mapped, np.uint8)
            failed = ctypes.CDLL(None).mincore(
                ctypes.c_void_p(content.ctypes.data), ctypes.c_size_t(size_bytes), ctypes.c_void_p(pages.ctypes.data)
            )
            del content  # before what it looks at is closed
        return 0 if failed else int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE


def caching_options(mounted: Path, commands: Iterable[Sequence[str]]) -> str | None:
    """The option by which the program that serves a mount keeps content, in words; None where no command has one.

    Args:
        mounted: the directory that is mounted.
        commands: the command lines of what runs on this machine.
    """
    for command in commands:
        program = Path(command[0]).name if command else ""
        if str(mounted) not in command:
            continue
        for word, following in zip(command, [*command[1:], ""], strict=True):
            option, equals, value = word.partition("=")
            if option in _CACHE_OPTIONS.get(program, ()) and (value if equals else following) != "off":
                return f"{program} was started with {option}, and so keeps content in a cache of its own"
    return None


def _processes() -> Iterable[psutil.Process]:
    for process in psutil.process_iter():
        try:
            process.cmdline()
        except psutil.Error:  # gone, or somebody else's
            continue
        yield process
