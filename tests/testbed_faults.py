"""The testbed's faults by what they look like to a client, for the tables of what they do to whom."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from buckettestbed import RunningTestbed
from buckettestbed.operations.names import OPERATIONS
from torchbucket import RetryConfig, StoreConfig
from torchbucket.store import Store

__all__ = [
    "FAULTS",
    "FAULTS_OF_WRITERS",
    "FIRST",
    "OPEN_UPLOAD_NOTE",
    "but_for_aborts",
    "forgotten_uploads",
    "impatient_config",
    "lasts",
    "limits_s",
]

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
    "a listing's page is empty and has a token": {"kind": "empty_page"},
}
FAULTS_OF_WRITERS: Final = {
    **FAULTS,
    "reset inside what is sent": {"kind": "reset_upload"},
    "a completion is answered 200, with an error": {"kind": "error_after_200"},
}
FIRST: Final = {"nth": 1}
OPEN_UPLOAD_NOTE: Final = (
    "An upload stays open whose opening was not answered, so that nobody knows its name; it is invisible, and "
    "`torchbucket sweep-temporaries --uploads` removes it."
)
_KINDS_OF_SOME_OPERATIONS: Final = (
    "corrupt",
    "repeat_page",
    "skip_page",
    "stale_listing",
    "empty_page",
    "error_after_200",
)

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


def but_for_aborts(fault: Mapping[str, Any]) -> dict[str, Any]:
    """What has a fault spare the request that gives an upload up: nobody can do that where none gets through."""
    if fault["kind"] in _KINDS_OF_SOME_OPERATIONS:
        return {}
    return {"operations": sorted(OPERATIONS - {"abort_upload"})}


def forgotten_uploads(testbed: RunningTestbed, inspector: Store) -> bool:
    """Whether uploads are open, of which the store does not know or it would soon have given them up; removes them."""
    limit_s = time.monotonic() + 2
    while testbed.open_uploads():
        if time.monotonic() > limit_s:
            for upload in inspector.list_uploads():
                inspector.abort_upload(upload)
            assert not testbed.open_uploads()
            return True
        time.sleep(0.02)
    return False
