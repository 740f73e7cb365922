"""Under every fault of the testbed an epoch ends with exactly the right bytes or a typed error: see docs/faults.md.

A cell strikes the first request of one epoch, its listing included, and then has the same fault strike every one of
them. An epoch that is short, wrong or hangs is a failure of the test. On each commit every fault strikes a kind of data
set or two, and every kind is struck by some faults; at night every fault strikes every kind. Of those that only a
deadline ends one is here on each commit, one in `test_checkpoint_faults`, one in `test_distributed_checkpoint_faults`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from epoch_subjects import SUBJECTS, fill
from testbed_faults import FAULTS, FIRST, lasts, limits_s
from testbed_tables import Table

from buckettestbed import RunningTestbed, launch_testbed
from torchbucket import StoreError

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
    """Each fault with each kind of data set; on each commit with two, or with one or none where it takes seconds."""
    for number, row in enumerate(FAULTS):
        often = {number % len(SUBJECTS), (number + len(SUBJECTS) // 2) % len(SUBJECTS)}
        if lasts(FAULTS[row]):
            often = {number % len(SUBJECTS)} if row == "silence inside the body" else set()
        for place, column in enumerate(SUBJECTS):
            yield pytest.param(row, column, marks=() if place in often else pytest.mark.nightly, id=f"{row}-{column}")


@pytest.mark.parametrize(("row", "column"), [*_cells()])
def test_epoch(row: str, column: str, struck: RunningTestbed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    before = struck.object_counts()
    patient_s, impatient_s = limits_s(FAULTS[row])
    first = outcome(struck, column, FAULTS[row] | FIRST, deadline_s=patient_s)
    every = outcome(struck, column, FAULTS[row], deadline_s=impatient_s)
    assert (struck.object_counts(), struck.open_uploads()) == (before, [])  # nothing is left behind
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
