"""Every store keeps names byte for byte and lists them in byte order, prefixes being plain text."""

from __future__ import annotations

import itertools

import pytest
from conformance_subjects import PAGE, Subject

from torchbucket.errors import ConfigError, StoreError, UnsupportedError
from torchbucket.store import Read

PLAIN = ["a", "a.b", "b/c", "b/d/e", "b.c", "b0", "logs/20250627_a", "logs/20250628", "x y/z", "ü/日本", "zz"]
LITERAL = [
    "%2F",
    "plus+plus",
    "q?a=b&c",
    "hash#tag",
    "quote'\"",
    "tilde~",
    "semi;colon",
    "back\\slash",
    "star*",
    "a b  c",
]
ODD = ["raw//x", "/leading", "trailing/", "./here", "odd/../y", "a/./b", "..", ".", "//", "new\nline", "\x7f", "é/é"]


def test_a_key_comes_back_as_it_was_given(made: Subject) -> None:
    for key in PLAIN + LITERAL:
        made.put(key, key.encode())
        assert [info.key for info in made.store.list()] == [key]
        assert made.store.head(key).key == key
        assert bytes(made.store.read(key).data) == key.encode()
        made.store.delete(key)
        assert list(made.store.list()) == []


@pytest.mark.parametrize("key", ODD)
def test_an_odd_key_is_kept_or_refused_by_name(made: Subject, key: str) -> None:
    reason = made.refuses(key)
    if reason is not None:
        for call in (
            lambda: made.store.write(key, b"x"),
            lambda: made.store.read(key),
            lambda: made.store.head(key),
            lambda: made.store.delete(key),
            lambda: made.store.copy(key, "to"),
        ):
            with pytest.raises(UnsupportedError, match=reason):
                call()
        return
    if "\n" in key and not made.newlines:
        with pytest.raises(StoreError):
            made.store.write(key, b"odd")
        return
    made.put(key, b"odd")
    assert bytes(made.store.read(key).data) == b"odd"
    assert [info.key for info in made.store.list()] == [key]
    assert [info.key for info in made.store.list(key)] == [key]


@pytest.mark.parametrize("key", ["", "lone\udc80surrogate"])
def test_what_names_no_object_is_refused(made: Subject, key: str) -> None:
    with pytest.raises(ConfigError):
        made.store.write(key, b"")
    with pytest.raises(ConfigError):
        made.store.submit_read(Read(key=key))


def test_a_listing_is_in_byte_order(made: Subject) -> None:
    for key in PLAIN:
        made.put(key, b"12")
    listed = list(made.store.list())
    assert [info.key for info in listed] == sorted(PLAIN, key=str.encode)
    assert {info.size_bytes for info in listed} == {2}


def test_a_prefix_is_plain_text(made: Subject) -> None:
    for key in PLAIN:
        made.put(key, b"")
    for prefix in ("", "b", "b/", "b/d", "logs/2025062", "logs/20250627", "nothing", "ü", "b.", "../", "b//"):
        expected = sorted((key for key in PLAIN if key.startswith(prefix)), key=str.encode)
        assert [info.key for info in made.store.list(prefix)] == expected, prefix


def test_a_listing_starts_after_any_text(made: Subject) -> None:
    for key in PLAIN:
        made.put(key, b"")
    texts = ("a", "b/c", "b/", "b/d/e", "b/d/zz", "logs/20250627", "zz", "zzz", "A", "日")
    for prefix, start_after in itertools.product(("", "b", "b/"), texts):
        expected = [key for key in PLAIN if key.startswith(prefix) and key.encode() > start_after.encode()]
        found = [info.key for info in made.store.list(prefix, start_after=start_after)]
        assert found == sorted(expected, key=str.encode), (prefix, start_after)


def test_a_listing_has_many_pages(made: Subject) -> None:
    """More objects than S3 names in a page; the page size here is a hundred, so that moto ends in time."""
    keys = [f"n/{number:05}" for number in range(2 * PAGE + PAGE // 2 + 1)]
    for key in keys:
        made.put(key, b"")
    assert [info.key for info in made.store.list("n/")] == keys


def test_a_listing_of_exactly_a_page_ends(made: Subject) -> None:
    keys = [f"n/{number:05}" for number in range(PAGE)]
    for key in keys:
        made.put(key, b"")
    assert [info.key for info in made.store.list()] == keys


def test_pages_follow_one_another(made: Subject) -> None:
    """Each page begins where the one before says, by a request of its own."""
    for key in PLAIN:
        made.put(key, key.encode())
    found: list[str] = []
    after, complete = "", False
    while not complete:
        page = made.store.submit_list_page("b", start_after=after).result()
        assert page.sizes_bytes == [len(key.encode()) for key in page.keys]
        assert len(page.versions) == len(page.keys)
        assert not page.keys or page.resume_after >= page.keys[-1]
        found += page.keys
        after, complete = page.resume_after, page.complete
    assert found == sorted((key for key in PLAIN if key.startswith("b")), key=str.encode)


def test_a_page_tells_versions_that_pin_a_read(made: Subject) -> None:
    made.put("k", b"content")
    page = made.store.submit_list_page("k").result()
    assert bytes(made.store.read("k", version=page.versions[0]).data) == b"content"
