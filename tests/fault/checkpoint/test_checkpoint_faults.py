"""Under every fault of the testbed a checkpoint is right or a typed error is raised: see docs/faults.md.

A cell strikes the first request of one action, and then has the same fault strike every one of another, but for the
request that gives an upload up: nobody can do that where no such request gets through. Afterwards the bucket holds the
checkpoint that was there or the new one, whole, and no upload is open, but for those whose opening was never answered:
nobody knows their names. On each commit every fault strikes an action or
two, and every action is struck by some faults; at night every fault strikes every action.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from struck_checkpoints import ACTIONS, BUCKET, KEY, undisturbed
from testbed_faults import FAULTS, FIRST, lasts, limits_s
from testbed_tables import Table

from buckettestbed import RunningTestbed, launch_testbed
from buckettestbed.operations.names import OPERATIONS
from torchbucket import StoreError
from torchbucket.store import Store

ROWS = {**FAULTS, "reset inside what is sent": {"kind": "reset_upload"}}
KINDS_OF_SOME_OPERATIONS = ("corrupt", "repeat_page", "skip_page", "stale_listing")
# A request that opens an upload may take effect in these without a whole answer.
UNANSWERED = (
    "reset inside the body",
    "the body ends early",
    "silence before the answer",
    "silence inside the body",
    "the body drips",
    "a change's answer is lost",
)
NOTE = (
    "An upload stays open whose opening was not answered, so that nobody knows its name; it is invisible, and "
    "`torchbucket sweep-temporaries --uploads` removes it."
)
TABLE = Table(
    name="checkpoints under faults",
    corner="what happens",
    rows=list(ROWS),
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
    """Each fault with each action; on each commit with two, or with one where it takes seconds or strikes none."""
    for number, row in enumerate(ROWS):
        often = {number % len(ACTIONS)}
        if not lasts(ROWS[row]) and ROWS[row]["kind"] not in ("repeat_page", "skip_page", "stale_listing"):
            often.add((number + len(ACTIONS) // 2) % len(ACTIONS))
        for place, column in enumerate(ACTIONS):
            yield pytest.param(row, column, marks=() if place in often else pytest.mark.nightly, id=f"{row}-{column}")


@pytest.mark.parametrize(("row", "column"), [*_cells()])
def test_checkpoint(
    row: str, column: str, struck: RunningTestbed, inspector: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    patient_s, impatient_s = limits_s(ROWS[row])
    first = outcome(struck, inspector, column, ROWS[row] | FIRST, deadline_s=patient_s)
    every = outcome(struck, inspector, column, ROWS[row] | _but_for_aborts(row), deadline_s=impatient_s)
    left = forgotten(struck, inspector)
    assert not left or row in UNANSWERED
    TABLE.record(row, column, first if first == every else f"{first}; {every}", note=NOTE if left else None)


def _but_for_aborts(row: str) -> dict[str, Any]:
    if ROWS[row]["kind"] in KINDS_OF_SOME_OPERATIONS:
        return {}
    return {"operations": sorted(OPERATIONS - {"abort_upload"})}


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


def forgotten(testbed: RunningTestbed, inspector: Store) -> bool:
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
