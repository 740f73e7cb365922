"""Under every fault of the testbed a checkpoint is right or a typed error is raised: see docs/faults.md.

A cell strikes the first request of one action, and then has the same fault strike every one of another, but for the
request that gives an upload up: nobody can do that where no such request gets through. Afterwards the bucket holds the
checkpoint that was there or the new one, whole, and no upload is open, but for those whose opening was never answered:
nobody knows their names. On each commit every fault strikes an action or
two, and every action is struck by some faults; at night every fault strikes every action. Of those that only a deadline
ends one is here on each commit, see `test_epoch_faults`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from struck_checkpoints import ACTIONS, BUCKET, KEY, undisturbed
from testbed_faults import (
    FAULTS_OF_WRITERS,
    FIRST,
    OPEN_UPLOAD_NOTE,
    but_for_aborts,
    forgotten_uploads,
    lasts,
    limits_s,
)
from testbed_tables import Table

from buckettestbed import RunningTestbed, launch_testbed
from torchbucket import StoreError
from torchbucket.store import Store

# A request that opens an upload may take effect in these without a whole answer.
UNANSWERED = (
    "reset inside the body",
    "the body ends early",
    "silence before the answer",
    "silence inside the body",
    "the body drips",
    "a change's answer is lost",
)
TABLE = Table(
    name="checkpoints under faults",
    corner="what happens",
    rows=list(FAULTS_OF_WRITERS),
    columns=list(ACTIONS),
    document=Path(__file__).resolve().parents[3] / "docs" / "faults.md",
)


@pytest.fixture(scope="module")
def struck() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET]) as testbed:
        yield testbed


@pytest.fixture(scope="module")
def inspector(struck: RunningTestbed) -> Iterator[Store]:
    store = undisturbed(struck)
    yield store
    store.close()


def _cells() -> Iterator[object]:
    """Each fault with each action; on each commit with two, or fewer where it takes seconds or strikes some alone."""
    columns = [*ACTIONS]
    for number, (row, fault) in enumerate(FAULTS_OF_WRITERS.items()):
        often = {columns[number % len(columns)], columns[(number + len(columns) // 2) % len(columns)]}
        if lasts(fault):
            often = {"save (GCS)"} if row == "silence before the answer" else set()
        elif fault["kind"] in ("repeat_page", "skip_page", "stale_listing", "empty_page"):
            often = set()
        elif fault["kind"] in ("reset_upload", "error_after_200"):
            often = {"save in parts (S3)"}
        for column in columns:
            yield pytest.param(row, column, marks=() if column in often else pytest.mark.nightly, id=f"{row}-{column}")


@pytest.mark.parametrize(("row", "column"), [*_cells()])
def test_checkpoint(
    row: str, column: str, struck: RunningTestbed, inspector: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    fault = FAULTS_OF_WRITERS[row]
    patient_s, impatient_s = limits_s(fault)
    first = outcome(struck, inspector, column, fault | FIRST, deadline_s=patient_s)
    every = outcome(struck, inspector, column, fault | but_for_aborts(fault), deadline_s=impatient_s)
    left = forgotten_uploads(struck, inspector)
    assert not left or row in UNANSWERED
    TABLE.record(row, column, first if first == every else f"{first}; {every}", note=OPEN_UPLOAD_NOTE if left else None)


@pytest.mark.nightly
def test_the_page_has_the_outcomes() -> None:
    TABLE.settle()


def outcome(testbed: RunningTestbed, inspector: Store, column: str, rule: dict[str, Any], *, deadline_s: float) -> str:
    """One action in a word; raises AssertionError where it ended as if all was well and was not, or left something."""
    action = ACTIONS[column]
    action.prepare(inspector)
    checkpoint = action.open(testbed, deadline_s=deadline_s)
    testbed.set_faults([rule])
    testbed.reset_counts()
    raised = None
    try:
        action.run(checkpoint)
    except StoreError as error:
        raised = error
    finally:
        struck = sum(testbed.counts()["faults"].values())
        testbed.set_faults([])
    assert struck or raised is None, f"an undisturbed action failed: {raised}"
    believed = action.removes and rule.get("status") == 404 and raised is None
    action.inspect(inspector, done=raised is None and not believed)
    assert [info.key for info in inspector.list()] in ([], [KEY])  # nothing else is left behind
    checkpoint.store.close()
    if raised is not None:
        return f"`{type(raised).__name__}`"
    if believed:
        return "believed"
    return "right" if struck else "not struck"
