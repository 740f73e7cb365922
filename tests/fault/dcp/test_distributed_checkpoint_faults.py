"""Under every fault of the testbed a distributed checkpoint is right or a typed error is raised: see docs/faults.md.

A cell strikes the first request of one action, and then has the same fault strike every one of another, but for the
request that gives an upload up. Afterwards the run's newest complete checkpoint loads as it was saved, and no upload is
open but those whose opening was never answered. On each commit every fault strikes one action; at night every fault
strikes every action. Of those that only a deadline ends one is here on each commit, see `test_epoch_faults`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from struck_distributed_checkpoints import ACTIONS, BUCKET, store_of, undisturbed
from testbed_faults import (
    FAULTS_OF_WRITERS,
    FIRST,
    OPEN_UPLOAD_NOTE,
    but_for_aborts,
    forgotten_uploads,
    limits_s,
)
from testbed_tables import Table

from buckettestbed import RunningTestbed, launch_testbed
from torchbucket import StoreConfig

TABLE = Table(
    name="distributed checkpoints under faults",
    corner="what happens",
    rows=list(FAULTS_OF_WRITERS),
    columns=list(ACTIONS),
    document=Path(__file__).resolve().parents[3] / "docs" / "faults.md",
)


@pytest.fixture(scope="module")
def struck() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET], opaque_etags=True) as testbed:
        yield testbed


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        yield


# Faults of some requests, and an action that makes them.
OF_SOME_ACTIONS = {
    "one byte of an object is changed": "load one tensor (GCS)",
    "a listing's page is left out": "load one tensor (S3)",
    "written names are not listed": "latest (GCS)",
    "a change's answer is lost": "save over (S3)",
    "a listing's page is empty and has a token": "prune (S3)",
    "reset inside what is sent": "commit (GCS)",
    "a completion is answered 200, with an error": "save (S3)",
}
NONE = ("silence before the answer", "silence inside the body", "a listing's page comes again")
"""Faults that on each commit strike none: they take seconds, or strike no action at all."""


def _cells() -> Iterator[object]:
    others = [row for row in FAULTS_OF_WRITERS if row not in OF_SOME_ACTIONS and row not in NONE]
    chosen = OF_SOME_ACTIONS | {row: [*ACTIONS][number * 3 % len(ACTIONS)] for number, row in enumerate(others)}
    for row in FAULTS_OF_WRITERS:
        for column in ACTIONS:
            often = chosen.get(row) == column
            yield pytest.param(row, column, marks=() if often else pytest.mark.nightly, id=f"{row}-{column}")


@pytest.mark.parametrize(("row", "column"), [*_cells()])
def test_distributed_checkpoint(
    row: str, column: str, struck: RunningTestbed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    config = undisturbed(struck)
    key = {} if ACTIONS[column].key is None else {"key": ACTIONS[column].key}
    fault = FAULTS_OF_WRITERS[row]
    patient_s, impatient_s = limits_s(fault)
    first = outcome(struck, config, column, fault | FIRST | key, deadline_s=patient_s)
    every = outcome(struck, config, column, fault | but_for_aborts(fault) | key, deadline_s=impatient_s)
    left = forgotten_uploads(struck, store_of(config))
    TABLE.record(row, column, first if first == every else f"{first}; {every}", note=OPEN_UPLOAD_NOTE if left else None)


@pytest.mark.nightly
def test_the_page_has_the_outcomes() -> None:
    TABLE.settle()


def outcome(
    testbed: RunningTestbed, config: StoreConfig, column: str, rule: dict[str, Any], *, deadline_s: float
) -> str:
    """One action in a word; raises AssertionError where it ended as if all was well and was not."""
    action = ACTIONS[column]
    action.prepare(config)
    testbed.set_faults([rule])
    testbed.reset_counts()
    believes = action.lists and rule["kind"] in ("skip_page", "stale_listing")
    believes = believes or (action.removes and rule.get("status") == 404)
    try:
        raised = action.run(testbed, deadline_s=deadline_s)
    except AssertionError:
        if not believes:
            raise
        raised = None
    finally:
        struck = sum(testbed.counts()["faults"].values())
        testbed.set_faults([])
    assert struck or raised is None, f"an undisturbed action failed: {raised}"
    action.inspect(config, done=raised is None and not (believes and struck))
    if raised is not None:
        return f"`{type(raised).__name__}`"
    if not struck:
        return "not struck"
    return "believed" if believes else "right"
