"""Listings over HTTP, of both providers: names of every kind, a bucket that changes meanwhile, pages that are wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from buckettestbed.launch import RunningTestbed
from torchbucket import RetryConfig, StoreConfig, StoreError
from torchbucket.listing import Manifest, list_objects
from torchbucket.store import Store, open_store

PAGE = 50


@pytest.fixture(scope="module", params=["s3", "gs"])
def store(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Iterator[Store]:
    endpoint = testbed.s3_endpoint if request.param == "s3" else testbed.gcs_endpoint
    config = StoreConfig(
        endpoint=endpoint, anonymous=True, list_page_size=PAGE, list_retry=RetryConfig(initial_s=0.001, maximum_s=0.01)
    )
    opened = open_store(f"{request.param}://listing", config)
    yield opened
    opened.close()  # type: ignore[attr-defined]  # of the stores over HTTP


def requests_of(testbed: RunningTestbed) -> int:
    counts = testbed.counts()["requests"]
    return sum(count for name, count in counts.items() if name.startswith("list_objects"))


def fill(testbed: RunningTestbed, stem: str, names: list[str]) -> list[str]:
    keys = sorted({stem + name for name in names})
    testbed.put_objects("listing", [(key, len(key) % 11) for key in keys])
    return keys


def kinds() -> dict[str, list[str]]:
    count = 1200
    return {
        "numbers": [f"{i:07}.jpg" for i in range(count)],
        "one-prefix": ["p" * 200 + f"{i}" for i in range(count)],
        "hot": [f"a{i}" for i in range(9)] + [f"k/hot/very/deep/{i:06}" for i in range(count)] + ["z1", "z2"],
        "extend": ["a" * (i % 97 + 1) + "." * (i // 97) for i in range(count)],
        "astral": [
            chr((0xD6D0 if i % 2 else 0x1F300) + i // 4) + chr(0xE000 + i % 7) + f"{i % 3}" for i in range(count)
        ],
        "odd": [
            f"{i:03}/{odd}" for i in range(60) for odd in ("//x", "./y", "../z", "a b", "a+b", "a%20b", "#?&=", "é")
        ],
    }


@pytest.mark.parametrize("kind", kinds())
def test_names_of_every_kind_are_listed_once_in_order(store, testbed, kind):
    keys = fill(testbed, f"{kind}/", kinds()[kind])
    testbed.reset_counts()
    listing = list_objects(store, f"{kind}/", versions=True)
    assert list(listing.keys) == keys
    assert listing.sizes_bytes.tolist() == [len(key) % 11 for key in keys]
    assert listing.version(0) == store.head(keys[0]).version
    assert listing.version(len(keys) - 1) == store.head(keys[-1]).version
    pages = -(-len(keys) // (PAGE - 1))
    assert requests_of(testbed) <= pages + pages // 16 + 64 + 16 + 2
    assert [info.key for info in store.list(f"{kind}/")] == keys


def test_a_prefix_of_one_page_takes_one_request(store, testbed):
    keys = fill(testbed, "one/", [f"{i:03}" for i in range(PAGE)])
    for prefix, wanted in (("one/", keys), ("one/01", keys[10:20]), ("one/nothing", [])):
        testbed.reset_counts()
        assert list(list_objects(store, prefix).keys) == wanted
        assert requests_of(testbed) == 1


@settings(max_examples=examples(25))
@given(data=st.data())
def test_a_page_begins_after_any_key(store, testbed, data):
    keys = fill(testbed, "page/", [f"{a}{b}" for a in "aé😀" for b in ("", ".", "b", "\ud7ff", "\ue000", "\U0010ffff")])
    after = data.draw(
        st.one_of(st.sampled_from(keys), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4))
    )
    start = after if data.draw(st.booleans()) else f"page/{after}"
    page = store.submit_list_page("page/", start_after=start).result()
    assert page.keys == [key for key in keys if key > start]
    assert page.complete
    assert page.resume_after == (page.keys[-1] if page.keys else start)
    assert len(page.sizes_bytes) == len(page.versions) == len(page.keys)


def test_what_is_there_all_the_time_is_listed_while_others_come_and_go(store, testbed):
    stays = fill(testbed, "busy/", [f"{i:05}-stays" for i in range(1000)])
    ended = threading.Event()

    def disturb() -> None:
        number = 0
        while not ended.is_set():
            key = f"busy/{number * 37 % 1000:05}-comes"
            store.write(key, b"1")
            store.delete(f"busy/{(number - 5) * 37 % 1000:05}-comes")
            number += 1

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(4):
            found = list(list_objects(store, "busy/").keys)
            assert found == sorted(set(found))
            assert [key for key in found if key.endswith("stays")] == stays
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("kind", ["error", "reset", "truncate"])
def test_a_request_that_fails_is_made_again(store, testbed, kind):
    keys = fill(testbed, "faults/", [f"{i:04}" for i in range(600)])
    rule = {"kind": kind, "operations": ["list_objects_v2", "list_objects"], "probability": 0.2}
    if kind == "error":
        rule["status"] = 503
    testbed.set_faults({"seed": 1, "rules": [rule]})
    assert list(list_objects(store, "faults/").keys) == keys
    assert testbed.faults()["rules"][0]["injected"] > 0


@pytest.mark.parametrize("kind", ["repeat_page", "skip_page"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_a_page_that_comes_twice_or_never_is_no_shorter_listing(store, testbed, kind, nth):
    keys = fill(testbed, "wrong/", [f"{i:04}" for i in range(700)])
    rule = {"kind": kind, "operations": ["list_objects_v2", "list_objects"], "nth": nth}
    testbed.set_faults({"seed": 1, "rules": [rule]})
    try:
        found = list(list_objects(store, "wrong/").keys)
    except StoreError as error:
        assert "the listing would be wrong" in str(error)
    else:
        assert found == keys


def test_a_store_that_fails_ends_the_listing_with_its_error(store, testbed):
    fill(testbed, "down/", [f"{i:04}" for i in range(400)])
    rule = {"kind": "error", "status": 403, "operations": ["list_objects_v2", "list_objects"], "after": 3}
    testbed.set_faults({"seed": 1, "rules": [rule]})
    with pytest.raises(StoreError) as raised:
        list_objects(store, "down/")
    assert raised.value.status == 403


def test_a_manifest_lives_beside_its_objects(store, testbed):
    keys = fill(testbed, "data/", [f"{i:04}" for i in range(120)])
    config = store.config
    Manifest.from_prefix(f"{store.uri}/data/", config=config).write(
        f"{store.uri}/manifests/data.parquet", config=config
    )
    testbed.reset_counts()
    found = Manifest.read(f"{store.uri}/manifests/data.parquet", config=config)
    assert requests_of(testbed) == 0
    assert (found.root.root, found.prefix) == (store.uri, "data/")
    assert list(found.listing.keys) == keys
    version = found.listing.version(7)
    assert store.read(keys[7], version=version).info.version == version
