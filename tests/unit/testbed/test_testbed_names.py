"""Sorted names and their listing, against plain sorted lists."""

from __future__ import annotations

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from buckettestbed.model import names as names_module
from buckettestbed.model.names import SortedNames, list_names, successor

LETTERS = st.text(alphabet=["a", "b", "/", "é", "\ue000", "\U00010000", "\U0010ffff"], max_size=6)


def expected(names: set[str], *, prefix: str, delimiter: str, after: str) -> list[str]:
    """Returns all entries, names and common prefixes, by the definition: roll up, drop what is not after, sort."""
    entries = set()
    for name in names:
        if name.startswith(prefix):
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            entries.add(name if cut < 0 else name[: cut + len(delimiter)])
    return sorted(entry for entry in entries if entry > after)


@given(
    names=st.sets(LETTERS.filter(bool), max_size=40),
    prefix=LETTERS,
    delimiter=st.sampled_from(["", "/", "a", "//", "é/"]),
    after=LETTERS,
    limit=st.integers(1, 5),
)
def test_pages_join_to_the_sorted_list(names: set[str], prefix: str, delimiter: str, after: str, limit: int) -> None:
    wanted = expected(names, prefix=prefix, delimiter=delimiter, after=after)
    kept, entries = SortedNames(names), []
    while True:
        page = list_names(kept, prefix=prefix, delimiter=delimiter, after=after, limit=limit)
        found = sorted(page.names + page.common_prefixes)
        assert len(found) <= limit
        assert set(page.names) <= names
        entries += found
        if not page.truncated:
            break
        assert len(found) == limit
        assert page.last == found[-1]
        after = page.last
    assert entries == wanted


@settings(max_examples=examples(60))
@given(changes=st.lists(st.tuples(st.booleans(), LETTERS), max_size=120))
def test_adding_and_discarding_keep_the_order(changes: list[tuple[bool, str]]) -> None:
    before = names_module._CHUNK_NAMES
    names_module._CHUNK_NAMES = 3  # Small chunks, so that they split and vanish.
    try:
        kept, model = SortedNames(), set()
        for adds, name in changes:
            (kept.add if adds else kept.discard)(name)
            (model.add if adds else model.discard)(name)
            assert list(kept) == sorted(model, key=lambda text: text.encode())
            assert len(kept) == len(model)
            assert list(kept.from_name(name)) == [other for other in sorted(model) if other >= name]
    finally:
        names_module._CHUNK_NAMES = before


@given(prefix=LETTERS, rest=LETTERS)
def test_a_successor_is_after_all_that_begins_so(prefix: str, rest: str) -> None:
    after = successor(prefix)
    if after is None:
        assert set(prefix) <= {"\U0010ffff"}
    else:
        assert after > prefix + rest
        assert not after.startswith(prefix)
        after.encode()  # No surrogate.


def test_a_limit_of_zero_lists_nothing() -> None:
    page = list_names(SortedNames(["a"]), limit=0)
    assert (page.names, page.truncated) == ([], False)
