"""The highest memory of this process since a moment, by the kernel's own record of it."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path
from typing import Final

__all__ = ["forget_peak", "give_back_free_memory", "peak_rss_bytes", "rss_bytes"]

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_FORGET_PEAK: Final = "5"  # Source: proc_pid_clear_refs(5), since Linux 4.0


def give_back_free_memory() -> None:
    """Free what is out of reach, and give back what the allocator keeps of freed memory, where it can be told to.

    *Source*: malloc_trim(3), of the GNU C library.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def forget_peak() -> bool:
    """Let the record begin anew at what the process takes now; False where the system has none that can be."""
    try:
        _CLEAR.write_text(_FORGET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_rss_bytes() -> int:
    """The highest resident set size since ``forget_peak``, in bytes.

    Raises:
        OSError: the system keeps no such record.
    """
    return _field("VmHWM")


def rss_bytes() -> int:
    """The resident set size now, in bytes.

    Raises:
        OSError: the system does not tell it.
    """
    return _field("VmRSS")


def _field(name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB$", _STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    if found is None:
        raise OSError(f"{_STATUS} has no {name}")
    return int(found[1]) * 1024
