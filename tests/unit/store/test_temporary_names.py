"""Names of temporary objects: they begin with the target's, fit the providers' bound, and are told from others."""

from __future__ import annotations

import pytest

from torchbucket.store.temporary_names import is_temporary, temporary_key


@pytest.mark.parametrize("target", ["k", "a/b/c", "日" * 341, "x" * 1024, "é" * 512])
def test_a_name_fits_and_is_known(target: str) -> None:
    made = temporary_key(target)
    assert len(made.encode()) <= 1024
    assert made.startswith(target[:300])
    assert is_temporary(made)
    assert made != temporary_key(target)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "k",
        "k.torchbucket-temporary-",
        "k.torchbucket-temporary-0123456789abcdeg",
        "a.torchbucket-temporary-0123456789abcdef/b",
    ],
)
def test_other_names_are_not_taken_for_one(key: str) -> None:
    assert not is_temporary(key)
