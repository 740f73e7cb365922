"""How far a lazy reader reads ahead: little after a jump, more with every window that is read to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torchbucket.errors import ConfigError
from torchbucket.public import public_in

__all__ = ["ReadAhead"]

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


@public_in("torchbucket.files")
@dataclass(frozen=True, kw_only=True, slots=True)
class ReadAhead:
    """The lengths of the ranges that a lazy reader asks for.

    After a jump, and at the start, ``initial_bytes`` are fetched where less was asked for. Every further window that
    continues the one before is twice as long, up to ``maximum_bytes``, and from the second on the next window is
    fetched while the current one is consumed. A reader therefore holds at most two windows, apart from what one
    call asks for.

    Args:
        initial_bytes: length of the first window. *Source:* at 100 MiB/s a connection 128 KiB take 1.25 ms, little
            beside a first byte after 20 ms, and hold a zip file's directory or an image's header.
        maximum_bytes: bound on a window. *Source:* ``StoreConfig.part_size_bytes``' default; a longer range would be
            split into parts again.

    Raises:
        ConfigError: a length is not positive, or the maximum is below the initial length.
    """

    initial_bytes: int = 128 * _KIB
    maximum_bytes: int = 8 * _MIB

    def __post_init__(self) -> None:
        if self.initial_bytes < 1 or self.maximum_bytes < self.initial_bytes:
            raise ConfigError(
                "ReadAhead needs 1 <= initial_bytes <= maximum_bytes; "
                f"got initial_bytes={self.initial_bytes}, maximum_bytes={self.maximum_bytes}"
            )

    def after(self, window_bytes: int) -> int:
        """The length of the window that follows, in sequence, one of ``window_bytes``."""
        return min(max(2 * window_bytes, self.initial_bytes), self.maximum_bytes)
