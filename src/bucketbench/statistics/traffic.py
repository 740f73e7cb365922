"""What work asked of the service: the requests and bytes that a price list makes money of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["NO_COUNTS", "Traffic"]

NO_COUNTS: Final = (
    "nothing counted the requests by operation: a real service does not, nor did older versions; the same sweep with "
    "the testbed does"
)
"""Why there is no traffic where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """What one kind of work asked of the service, all times together.

    Args:
        times: how often the work was done, such as the number of epochs; at least 1.
        requests: how many of each operation, by the testbed's names, retries included.
        received_bytes: of bodies that the client read.
        sent_bytes: of bodies that the client wrote.
    """

    times: int
    requests: Mapping[str, int]
    received_bytes: int
    sent_bytes: int
