"""The testbed's faults by what they look like to a client, for the tables of what they do to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torchbucket import RetryConfig, StoreConfig

__all__ = ["FAULTS", "FIRST", "impatient_config", "lasts", "limits_s"]

FAULTS: Final[Mapping[str, dict[str, Any]]] = {
    "answered 500": {"kind": "error", "status": 500},
    "answered 503": {"kind": "error", "status": 503},
    "answered 429": {"kind": "error", "status": 429},
    "answered 403": {"kind": "error", "status": 403},
    "answered 404": {"kind": "error", "status": 404},
    "reset before the answer": {"kind": "reset"},
    "reset inside the body": {"kind": "reset", "after_fraction": 0.5},
    "the body ends early": {"kind": "truncate"},
    "silence before the answer": {"kind": "stall"},
    "silence inside the body": {"kind": "stall", "after_fraction": 0.5},
    "the first byte is late": {"kind": "delay", "seconds": 0.05},
    "the body drips": {"kind": "drip", "bytes_per_s": 2000},
    "one byte of an object is changed": {"kind": "corrupt"},
    "a listing's page comes again": {"kind": "repeat_page"},
    "a listing's page is left out": {"kind": "skip_page"},
    "written names are not listed": {"kind": "stale_listing", "seconds": 3600},
    "a change's answer is lost": {"kind": "lost_response"},
}
FIRST: Final = {"nth": 1}

# Only what lasts is ended by a deadline, so that on a busy machine nothing else is.
_LASTING: Final = ("stall", "drip")
_PATIENT_S, _IMPATIENT_S, _NO_LIMIT_S = 4.0, 0.8, 100.0


def lasts(fault: Mapping[str, Any]) -> bool:
    """Whether a fault keeps a request open, so that nothing but a deadline ends it."""
    return fault["kind"] in _LASTING


def limits_s(fault: Mapping[str, Any]) -> tuple[float, float]:
    """The deadlines of requests where a fault strikes once, and where it strikes every time."""
    return (_PATIENT_S, _IMPATIENT_S) if lasts(fault) else (_NO_LIMIT_S, _NO_LIMIT_S)


def impatient_config(endpoint: str, *, deadline_s: float, **fields: Any) -> StoreConfig:
    """Settings that give up soon: the tests have no time for more."""
    return StoreConfig(
        endpoint=endpoint,
        anonymous=True,
        part_size_bytes=5 << 20,
        stall_timeout_s=1,
        retry=RetryConfig(initial_s=0.001, multiplier=1.0, maximum_s=0.01, deadline_s=deadline_s, max_attempts=4),
        **fields,
    )
