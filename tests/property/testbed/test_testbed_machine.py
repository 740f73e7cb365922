"""Random operations through S3, GCS's JSON API and its XML API on one bucket, against a plain dictionary."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import ClassVar

import pytest
from examples import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from testbed_apis import CHUNK_BYTES, Api, JsonApi, Listing, S3Api, XmlApi

from buckettestbed import RunningTestbed, launch_testbed

# Every name is a few of these, so that names extend one another, and differ in what a careless server would fold.
TOKENS = (
    "a",
    "b",
    "a/",
    "b/",
    "/",
    "//",
    ".",
    "..",
    "%",
    "%2F",
    "+",
    " ",
    "é",
    "e\u0301",
    "\U0001d11e",
    "\uffee",
    "&",
    "<",
    "?#",
)
NO_NAMES = (".", "..")
"""GCS refuses them."""
NAMES = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4).map("".join).filter(lambda name: name not in NO_NAMES)
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=2).map("".join)
BODIES = st.one_of(st.binary(max_size=40), st.sampled_from([b"", bytes(70_000)]))
PIECES = st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=3)
APIS = st.sampled_from(["s3", "json", "xml"])

_numbers = itertools.count(1)


def listed(names: Sequence[str], listing: Listing, *, starts_at_name: bool) -> tuple[list[str], list[str]]:
    """Returns the names and common prefixes of a listing, as the providers describe them."""
    found, groups = [], []
    for name in sorted(names):
        if not name.startswith(listing.prefix) or (starts_at_name and name < listing.start):
            continue
        cut = name.find(listing.delimiter, len(listing.prefix)) if listing.delimiter else -1
        entry = name if cut < 0 else name[: cut + len(listing.delimiter)]
        if not starts_at_name and listing.start and entry <= listing.start:
            continue
        if cut < 0:
            found.append(name)
        elif entry not in groups:
            groups.append(entry)
    return found, groups


class OneBucket(RuleBasedStateMachine):
    """One bucket; `kept` is what it should hold. Each rule asks one API, drawn at random."""

    testbed: ClassVar[RunningTestbed]
    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, bytes] = {}
        self.generation = 0
        self.stack = ExitStack()
        s3, gcs = self.testbed.s3_endpoint, self.testbed.gcs_endpoint
        self.json = JsonApi(gcs)
        self.apis: dict[str, Api] = {"s3": S3Api(s3), "json": self.json, "xml": XmlApi(gcs)}
        bucket = f"machine-{next(_numbers)}"
        for api in self.apis.values():
            self.stack.enter_context(closing(api))
            api.bucket = bucket
        assert self.apis["s3"].ask("PUT", f"/{bucket}").status == 200

    @initialize(target=keys, names=st.lists(NAMES, min_size=8, max_size=16, unique=True))
    def some_objects(self, names: list[str]) -> object:
        for name, api in zip(names, itertools.cycle(self.apis.values())):
            assert api.put(name, name.encode()) == 200
            self.written(name, name.encode())
        return multiple(*names)

    @rule(target=keys, key=keys, more=TEXTS)
    def a_longer_name(self, key: str, more: str) -> str:
        return key + more if key + more not in NO_NAMES else key

    def written(self, key: str, body: bytes) -> None:
        """Notes a write, whose generation must be greater than that of every earlier one."""
        self.kept[key] = body
        generation = int(self.json.version(key) or 0)
        assert generation > self.generation
        self.generation = generation

    @rule(name=APIS, key=keys, body=BODIES)
    def put(self, name: str, key: str, body: bytes) -> None:
        assert self.apis[name].put(key, body) == 200
        self.written(key, body)

    @rule(name=APIS, key=keys, body=BODIES)
    def put_only_new(self, name: str, key: str, body: bytes) -> None:
        assert self.apis[name].put(key, body, only_new=True) == (412 if key in self.kept else 200)
        if key not in self.kept:
            self.written(key, body)

    @rule(name=APIS, key=keys, body=st.binary(max_size=40), between=st.booleans())
    def put_over_one_version(self, name: str, key: str, body: bytes, between: bool) -> None:
        version = self.apis[name].version(key)
        assert (version is not None) == (key in self.kept)
        if version is None:
            return
        if between:
            other = self.kept[key] + b"!"
            assert self.json.put(key, other) == 200
            self.written(key, other)
        assert self.apis[name].put(key, body, only_over=version) == (412 if between else 200)
        if not between:
            self.written(key, body)

    @rule(name=APIS, key=keys)
    def delete(self, name: str, key: str) -> None:
        absent = 204 if name == "s3" else 404
        assert self.apis[name].delete(key) == (204 if key in self.kept else absent)
        self.kept.pop(key, None)

    @rule(name=APIS, source=keys, to=keys)
    def copy(self, name: str, source: str, to: str) -> None:
        if name == "s3" and source == to:
            return  # S3 refuses a copy onto itself that changes nothing.
        assert self.apis[name].copy(source, to) == (200 if source in self.kept else 404)
        if source in self.kept:
            self.written(to, self.kept[source])

    @rule(sources=st.lists(keys, min_size=1, max_size=4), to=keys)
    def compose(self, sources: list[str], to: str) -> None:
        there = all(source in self.kept for source in sources)
        assert self.json.compose(sources, to) == (200 if there else 404)
        if there:
            self.written(to, b"".join(self.kept[source] for source in sources))

    @rule(
        name=APIS,
        key=keys,
        pieces=st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=3),
        finishes=st.booleans(),
    )
    def upload(self, name: str, key: str, pieces: list[bytes], finishes: bool) -> None:
        if name == "json":
            pieces = [bytes(CHUNK_BYTES), *pieces]
        self.apis[name].upload(key, pieces, finishes=finishes)
        if finishes:
            self.written(key, b"".join(pieces))

    @rule(name=APIS, key=keys)
    def get(self, name: str, key: str) -> None:
        answer = self.apis[name].get(key)
        if key in self.kept:
            assert (answer.status, answer.body) == (200, self.kept[key])
        else:
            assert answer.status == 404

    @rule(name=APIS, key=keys, start=st.integers(0, 45), length=st.integers(1, 45), last=st.booleans())
    def get_range(self, name: str, key: str, start: int, length: int, last: bool) -> None:
        body = self.kept.get(key)
        asked = f"bytes=-{length}" if last else f"bytes={start}-{start + length - 1}"
        answer = self.apis[name].get(key, asked)
        if body is None:
            assert answer.status == 404
        elif not body or (not last and start >= len(body)):
            assert answer.status == 416
        else:
            first = max(0, len(body) - length) if last else start
            part = body[first:] if last else body[start : start + length]
            assert (answer.status, answer.body) == (206, part)
            assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/{len(body)}"

    @rule(
        name=APIS,
        prefix=TEXTS,
        delimiter=st.sampled_from(["", "/", "/", "//", "a", "é", "%2F"]),
        start=st.one_of(st.just(""), TEXTS, keys),
        page_entries=st.sampled_from([1, 2, 3, 1000]),
    )
    def list_names(self, name: str, prefix: str, delimiter: str, start: str, page_entries: int) -> None:
        api = self.apis[name]
        listing = Listing(prefix=prefix, delimiter=delimiter, start=start, page_entries=page_entries)
        pages = api.pages(listing)
        assert all(len(names) + len(groups) <= page_entries for names, groups in pages)
        found = [entry for names, _ in pages for entry in names], [entry for _, groups in pages for entry in groups]
        assert found == listed(list(self.kept), listing, starts_at_name=api.starts_at_name)

    @invariant()
    def every_api_lists_the_same(self) -> None:
        whole = Listing(prefix="", delimiter="", start="", page_entries=1000)
        for api in self.apis.values():
            assert api.pages(whole) == [(sorted(self.kept), [])]

    def teardown(self) -> None:
        for api in self.apis.values():
            assert {key: api.get(key).body for key in self.kept} == self.kept
        bucket = self.apis["s3"].bucket
        self.stack.close()
        assert [upload for upload in self.testbed.open_uploads() if upload["bucket"] == bucket] == []


@pytest.fixture(scope="module")
def machine_testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(minimum_part_bytes=1) as running:
        yield running


@pytest.mark.timeout(600)  # Where it fails, a smaller failure is looked for.
def test_three_apis_agree_with_a_dictionary(machine_testbed: RunningTestbed) -> None:
    OneBucket.testbed = machine_testbed
    run_state_machine_as_test(
        OneBucket,
        settings=settings(
            max_examples=examples(20), stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
