"""The JSON API's listing against plain lists; partial responses and globs."""

from __future__ import annotations

import fnmatch

import pytest
from gcs_json_kit import OBJECTS, JsonDriver, document_of
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.fields import parse_fields, select
from buckettestbed.gcs.json.globs import compile_glob

NAMES = st.text(alphabet=["a", "b", "/", "é", "\U00010000"], min_size=1, max_size=5)
TEXTS = st.text(alphabet=["a", "b", "/", "é"], max_size=3)


def expected(names: set[str], prefix: str, delimiter: str, start: str, stop: str, markers: bool) -> list[str]:
    """Returns what all pages list, by the definition: bound the names, roll them up, sort."""
    items, prefixes = set(), set()
    for name in names:
        if name.startswith(prefix) and name >= start and (not stop or name < stop):
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                items.add(name)
                continue
            prefixes.add(name[: cut + len(delimiter)])
            if markers and name == name[: cut + len(delimiter)]:
                items.add(name)
    return sorted([*items, *prefixes])


@given(
    names=st.sets(NAMES, max_size=12),
    prefix=TEXTS,
    delimiter=st.sampled_from(["", "/", "a", "//"]),
    start=TEXTS,
    stop=TEXTS,
    markers=st.booleans(),
    limit=st.integers(1, 4),
)
def test_pages_join_to_what_was_asked_for(
    names: set[str], prefix: str, delimiter: str, start: str, stop: str, markers: bool, limit: int
) -> None:
    driver, found = JsonDriver(), []
    for name in names:
        driver.save(name)
    query: dict[str, object] = {"prefix": prefix, "delimiter": delimiter, "startOffset": start, "endOffset": stop}
    query |= {"maxResults": limit, "includeTrailingDelimiter": str(markers).lower()}
    while True:
        page = document_of(driver.call("GET", OBJECTS, query))
        entries = [item["name"] for item in page.get("items", [])] + page.get("prefixes", [])
        assert len(entries) <= max(limit, 2 if markers else 1)
        found += sorted(entries)
        if "nextPageToken" not in page:
            break
        assert entries
        query["pageToken"] = page["nextPageToken"]
    assert found == expected(names, prefix, delimiter, start, stop, markers)


def test_pages_have_a_thousand_names_at_most() -> None:
    driver = JsonDriver()
    for index in range(1001):
        driver.put(f"{index:04}")
    for query in ({}, {"maxResults": 5000}):
        page = document_of(driver.call("GET", OBJECTS, query))
        assert len(page["items"]) == 1000
        assert driver.names(pageToken=page["nextPageToken"]) == ["1000"]


def test_a_glob_selects_names_before_they_are_rolled_up() -> None:
    driver = JsonDriver()
    for name in ["a.txt", "b.bin", "d/c.txt", "d/e/f.txt", "d/g.bin"]:
        driver.save(name)
    assert driver.names(matchGlob="*.txt") == ["a.txt"]
    assert driver.names(matchGlob="**.txt") == ["a.txt", "d/c.txt", "d/e/f.txt"]
    assert driver.names(matchGlob="**.txt", delimiter="/") == ["a.txt", "d/"]
    assert driver.names(matchGlob="**.txt", maxResults=1) == ["a.txt"]
    assert driver.call("GET", OBJECTS, {"matchGlob": "[a"}).status == 400
    assert driver.call("GET", OBJECTS, {"matchGlob": "*", "delimiter": "x"}).status == 400


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("a*", ["a", "ab"], ["a/b", "ba"]),
        ("a**", ["a", "a/b"], ["b"]),
        ("a**c", ["ac", "a/c", "ab/c"], ["b/a/c"]),
        ("**/name", ["name", "a/name", "a/b/name"], ["myname", "a/myname", "name/a"]),
        ("a/**/c", ["a/c", "a/b/c", "a/b/b/c"], ["ac", "a/bc", "a"]),
        ("{**/x,y}", ["x", "a/x", "y"], ["ax", "a/y"]),
        ("a{**/x,y}", ["ab/x", "ay"], ["ax", "x"]),
        ("**/**/x", ["x", "a/x"], ["ax"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[^ab]", ["c"], ["a"]),
        ("[]]", ["]"], ["["]),
        ("{a,b/*}.x", ["a.x", "b/c.x"], ["c.x", "ax"]),
        ("a\\*", ["a*"], ["ab"]),
        ("a,b", ["a,b"], ["a"]),
        ("é$", ["é$"], ["é"]),
    ],
)
def test_globs(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = compile_glob(glob)
    assert [name for name in matching + other if pattern.fullmatch(name)] == matching


@given(glob=st.text(alphabet="ab*?", max_size=6).filter(lambda text: "**" not in text), name=st.text("ab", max_size=6))
def test_a_simple_glob_is_that_of_a_shell(glob: str, name: str) -> None:
    assert bool(compile_glob(glob).fullmatch(name)) == fnmatch.fnmatchcase(name, glob)


@pytest.mark.parametrize("glob", ["[", "[a", "[!]", "{a", "[b-a]", "x" * 2000])
def test_malformed_globs(glob: str) -> None:
    with pytest.raises(JsonError, match="Invalid glob"):
        compile_glob(glob)


VALUE = {"kind": "k", "items": [{"name": "a", "size": "1", "metadata": {"x": "1", "y": "2"}}, {"name": "b"}], "t": "n"}


@pytest.mark.parametrize(
    ("fields", "selected"),
    [
        ("kind", {"kind": "k"}),
        ("items(name),t", {"items": [{"name": "a"}, {"name": "b"}], "t": "n"}),
        ("items/name", {"items": [{"name": "a"}, {"name": "b"}]}),
        ("items/metadata/x", {"items": [{"metadata": {"x": "1"}}, {}]}),
        ("items(size,metadata(y))", {"items": [{"size": "1", "metadata": {"y": "2"}}, {}]}),
        ("items/name,items/size", {"items": [{"name": "a", "size": "1"}, {"name": "b"}]}),
        ("items(name),items", {"items": VALUE["items"]}),
        ("*", VALUE),
        ("items/*/x", {"items": [{"name": "a", "size": "1", "metadata": {"x": "1"}}, {"name": "b"}]}),
        ("none", {}),
    ],
)
def test_partial_responses(fields: str, selected: object) -> None:
    assert select(VALUE, parse_fields(fields)) == selected


@pytest.mark.parametrize("fields", ["", "a,", "a(", "a(b", "a)", "a/", "a(b)c", ",a", "a()"])
def test_malformed_fields(fields: str) -> None:
    with pytest.raises(JsonError, match="Invalid field selection"):
        parse_fields(fields)


def test_clients_save_bandwidth_by_fields() -> None:
    driver = JsonDriver()
    driver.save("k", b"1")
    driver.save("l", b"12")
    answer = driver.call("GET", OBJECTS, {"fields": "items(name,size),nextPageToken", "maxResults": 1})
    document = document_of(answer)
    assert document["items"] == [{"name": "k", "size": "1"}]
    assert document.keys() == {"items", "nextPageToken"}
    assert document_of(driver.call("PATCH", driver.of("k"), {"fields": "metadata"}, document={})) == {}
