"""What counts as delivered, and what is found wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xxhash

from bucketbench.scenarios.dataset.delivery import ContentCheck, DeliveryLedger, size_bytes_of

CONTENT = {"a.jpg": b"first", "b.jpg": b"second", "c/d.jpg": b""}


@pytest.fixture
def check(tmp_path: Path) -> ContentCheck:
    lines = [
        json.dumps({"key": key, "size_bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)})
        for key, data in CONTENT.items()
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines))
    return ContentCheck.from_file(path)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_right_content_has_its_position(check: ContentCheck, kind: type) -> None:
    assert [check.position(key, kind(data)) for key, data in CONTENT.items()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("key", "data", "words"),
    [
        ("z.jpg", b"first", "does not have"),
        ("a.jpg", b"firs", "4 bytes, the manifest has 5"),
        ("a.jpg", b"First", "checksum"),
        ("a.jpg", "first", "str, expected bytes"),
        ("a.jpg", None, "NoneType"),
        (b"a.jpg", b"first", "does not have"),
        (["a.jpg"], b"first", "does not have"),
    ],
)
def test_wrong_content_is_named(check: ContentCheck, key: object, data: object, words: str) -> None:
    found = check.position(key, data)
    assert isinstance(found, str)
    assert words in found


def test_the_size_of_a_view_is_in_bytes() -> None:
    assert size_bytes_of(memoryview(bytes(16)).cast("Q")) == 16


def ledger_with(*batches: list[int], samples: int = 4, **counts: int) -> DeliveryLedger:
    ledger = DeliveryLedger(samples)
    for batch in batches:
        ledger.add(batch, mismatched=0, errors=0, undecodable=0, notes=[])
    if counts:
        ledger.add([], **{"mismatched": 0, "errors": 0, "undecodable": 0, **counts}, notes=["what went wrong"])
    ledger.close_epoch()
    return ledger


def test_a_whole_epoch_fails_nothing() -> None:
    counts = ledger_with([2, 0], [3, 1]).counts()
    assert (counts.checked, counts.missing, counts.duplicated) == (4, 0, 0)
    assert counts.failure is None


def test_missing_and_duplicated_are_counted_apart() -> None:
    counts = ledger_with([0, 0, 0], [1]).counts()
    assert (counts.missing, counts.duplicated) == (2, 2)
    assert counts.failure is not None
    assert "2 never arrived" in counts.failure
    assert "2 arrived more than once" in counts.failure


def test_a_sample_that_is_known_to_be_wrong_is_not_missing_too() -> None:
    counts = ledger_with([0, 1], mismatched=1, errors=1).counts()
    assert (counts.mismatched, counts.errors, counts.missing) == (1, 1, 0)
    assert counts.failure is not None
    assert "what went wrong" in counts.failure


def test_an_undecodable_sample_hides_no_missing_one() -> None:
    counts = ledger_with([0, 1, 2], undecodable=1).counts()
    assert (counts.errors, counts.missing) == (1, 1)


def test_what_is_no_sample_is_among_those_that_are_read_at_most_and_hides_nothing_otherwise() -> None:
    for at_most, missing in ((3, 0), (None, 2)):
        ledger = DeliveryLedger(4, at_most=at_most)
        ledger.add([0, 1], mismatched=0, errors=0, undecodable=0, notes=[], no_samples=1)
        ledger.close_epoch()
        assert ledger.counts().missing == missing


def test_epochs_are_counted_apart() -> None:
    ledger = ledger_with([0, 1, 2, 3])
    ledger.add([0, 1], mismatched=0, errors=0, undecodable=0, notes=[])
    ledger.close_epoch()
    ledger.add([2, 3], mismatched=0, errors=0, undecodable=0, notes=[])
    ledger.close_epoch()
    assert ledger.counts().missing == 4


def test_few_notes_are_kept_of_many() -> None:
    ledger = DeliveryLedger(1)
    ledger.add([], mismatched=9, errors=0, undecodable=0, notes=[f"note {n}" for n in range(9)])
    ledger.add([], mismatched=9, errors=0, undecodable=0, notes=["late"])
    assert ledger.counts().notes == tuple(f"note {n}" for n in range(5))
