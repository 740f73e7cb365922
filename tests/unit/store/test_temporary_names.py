"""Names of temporary objects: they begin with the target's, fit the providers' bound, and are told from others."""

from __future__ import annotations

import time

import pytest

from torchbucket.store.temporary_names import any_temporary, is_temporary, made_at_s, target_of, temporary_key


@pytest.mark.parametrize("target", ["k", "a/b/c", "日" * 341, "x" * 1024, "é" * 512])
def test_a_name_fits_and_is_known(target: str) -> None:
    made = temporary_key(target)
    assert len(made.encode()) <= 1024
    assert made.startswith(target[:300])
    assert is_temporary(made)
    assert made != temporary_key(target)
    assert target.startswith(target_of(made))
    assert any_temporary(["k", made, "l"])


def test_a_name_tells_when_it_was_made() -> None:
    before_s = int(time.time())
    made_s = made_at_s(temporary_key("k"))
    assert made_s is not None
    assert before_s <= made_s <= time.time()


def test_a_name_that_must_be_short_is_cut_between_characters() -> None:
    made = temporary_key("日" * 100, most_bytes=100)
    assert len(made.encode()) <= 100
    assert is_temporary(made)


def test_a_temporary_of_a_temporary_is_one() -> None:
    """As a store makes them where it composes more objects than one request joins."""
    made = temporary_key(temporary_key("k"))
    assert is_temporary(made)
    assert is_temporary(target_of(made))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "k",
        "k.torchbucket-temporary-",
        "k.torchbucket-temporary-0123456789abcdef",
        "k.torchbucket-temporary-20261128T040352Z-0123456789abcdeg",
        "k.torchbucket-temporary-20261128T040352Z-0123456789abcde",
        "k.torchbucket-temporary-20261399T990000Z-0123456789abcdef",
        "k.torchbucket-temporary-20261128T040352Z-0123456789abcdef\n",
        "k.torchbucket-temporary-20261128T040352Z-0123456789abcdef.jpg",
        "a.torchbucket-temporary-20261128T040352Z-0123456789abcdef/b",
    ],
)
def test_other_names_are_not_taken_for_one(key: str) -> None:
    assert not is_temporary(key)
    assert not any_temporary([key])
    assert target_of(key) == key
