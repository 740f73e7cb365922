"""Under every fault of the testbed an epoch ends with exactly the right bytes or a typed error: see docs/faults.md.

A cell strikes the first request of one epoch, its listing included, and then has the same fault strike every one of
them. An epoch that is short, wrong or hangs is a failure of the test. On each commit every fault strikes a kind of data
set or two, and every kind is struck by some faults; at night every fault strikes every kind.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from epoch_subjects import SUBJECTS, fill
from testbed_tables import Table

from buckettestbed import RunningTestbed, launch_testbed
from torchbucket import StoreError

READS = ["get_object", "get_object_range"]
FAULTS: Mapping[str, dict[str, Any]] = {
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
FIRST = {"nth": 1}
# Only what lasts is ended by a deadline, so that on a busy machine nothing else is.
LASTING = ("stall", "drip")
PATIENT_S, IMPATIENT_S, NO_LIMIT_S = 4.0, 0.8, 100.0
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
TABLE = Table(
    name="epochs under faults", corner="what happens", rows=list(FAULTS), columns=list(SUBJECTS), document=DOCUMENT
)


@pytest.fixture(scope="module")
def struck() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as testbed:
        fill(testbed)
        yield testbed


def _cells() -> Iterator[object]:
    """Each fault with each kind of data set; on each commit with two kinds, or with one where it takes seconds."""
    for number, row in enumerate(FAULTS):
        often = {number % len(SUBJECTS)}
        if FAULTS[row]["kind"] not in LASTING:
            often.add((number + len(SUBJECTS) // 2) % len(SUBJECTS))
        for place, column in enumerate(SUBJECTS):
            yield pytest.param(row, column, marks=() if place in often else pytest.mark.nightly, id=f"{row}-{column}")


@pytest.mark.parametrize(("row", "column"), [*_cells()])
def test_epoch(row: str, column: str, struck: RunningTestbed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    before = set(struck.snapshot())
    lasts = FAULTS[row]["kind"] in LASTING
    first = outcome(struck, column, FAULTS[row] | FIRST, deadline_s=PATIENT_S if lasts else NO_LIMIT_S)
    every = outcome(struck, column, FAULTS[row], deadline_s=IMPATIENT_S if lasts else NO_LIMIT_S)
    assert set(struck.snapshot()) == before  # nothing is left behind
    TABLE.record(row, column, first if first == every else f"{first}; {every}")


@pytest.mark.nightly
def test_the_page_has_the_outcomes() -> None:
    TABLE.settle()


def outcome(testbed: RunningTestbed, column: str, rule: dict[str, Any], *, deadline_s: float) -> str:
    """One epoch in a word; raises AssertionError where it ended as if all was well and was not."""
    subject = SUBJECTS[column]
    testbed.set_faults([rule])
    testbed.reset_counts()
    try:
        samples = subject.run(testbed, deadline_s=deadline_s)
    except StoreError as error:
        assert sum(testbed.counts()["faults"].values()), f"an undisturbed epoch failed: {error}"
        return f"`{type(error).__name__}`"
    finally:
        struck = sum(testbed.counts()["faults"].values())
        testbed.set_faults([])
    if not struck:
        assert dict(samples) == dict(subject.expected)
        return "not struck"
    assert len(samples) == len(dict(samples)), "a sample came twice"
    assert dict(samples) == dict(subject.expected), "the epoch ended and was wrong"
    return "right"
