"""Drops the kernel's cache of files, so that what is read from a file system comes from its disk or its network.

Whether it then did is checked by what the kernel counts that the job's processes read from storage devices: the rule
``page_cache`` of :mod:`bucketbench.validity`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bucketbench.errors import PreflightError

__all__ = ["clear_kernel_cache", "require_clearing"]

_DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")
_PAGES: Final = "1"  # Source: proc_sys_vm(5): the page cache alone, since Linux 2.6.16


def require_clearing() -> None:
    """Raise where the cache cannot be dropped.

    Raises:
        PreflightError: the system has no such switch, or it is not this user's.
    """
    if not os.access(_DROP_CACHES, os.W_OK):
        raise PreflightError(
            f"clear_kernel_cache=true cannot be used: {_DROP_CACHES} may not be written here, which takes Linux and "
            "root's rights; leave it out, since clients that use no file system lose nothing"
        )


def clear_kernel_cache() -> None:
    """Write what is not on the disk yet, then drop all pages.

    Raises:
        OSError: it is not permitted.
    """
    os.sync()  # only pages that are written can be dropped
    _DROP_CACHES.write_text(_PAGES, encoding="ascii")
