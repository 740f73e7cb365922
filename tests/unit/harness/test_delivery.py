"""What counts as delivered, and what is found wrong."""

from __future__ import annotations

from bucketbench.scenarios.dataset.delivery import DeliveryLedger


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


def test_what_was_compared_by_size_alone_is_told_and_a_wrong_sample_of_the_warm_up_counts() -> None:
    ledger = DeliveryLedger(4)
    ledger.add_unmeasured(whole=2, mismatched=0, notes=["lost, which is the measured epochs' to tell"])
    assert not ledger.found_wrong
    ledger.add_unmeasured(whole=1, mismatched=1, notes=["what is wrong"])
    assert ledger.found_wrong
    ledger.add([0, 1, 2, 3], mismatched=0, errors=0, undecodable=0, notes=[], by_size=3)
    ledger.close_epoch()
    counts = ledger.counts()
    assert (counts.checked, counts.checked_by_size, counts.checked_in_warmup) == (4, 3, 4)
    assert counts.failure is not None
    assert (
        "of the warm-up and the measured epochs, 1 arrived with wrong content; first: what is wrong" in counts.failure
    )


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
