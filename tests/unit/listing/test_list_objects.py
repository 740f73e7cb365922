"""Listings of a directory and of wrong arguments; pages as every store gives them."""

from __future__ import annotations

import pytest

from torchbucket import ConfigError, NotFoundError, StoreConfig
from torchbucket.listing import list_objects
from torchbucket.store import open_store
from torchbucket.store.wrappers import LimitedStore, MeteredStore, OperationUsage

NAMES = ["a", "a-b", "a.b/c", "a/b", "a/b.c", "a/c/d", "b", "é/ü"]


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    config = StoreConfig(list_page_size=2)
    root = f"file://{tmp_path}/root/" if request.param == "file" else f"memory://{tmp_path.name}"
    if request.param == "file":
        (tmp_path / "root").mkdir()
    opened = open_store(root, config)
    for number, name in enumerate(NAMES):
        if not (request.param == "file" and name == "a"):  # a directory has this name
            opened.write(name, b"x" * number)
    yield opened
    opened.close()


def test_a_listing_is_what_the_store_lists(store):
    for prefix in ("", "a", "a/", "a/b", "é", "none"):
        infos = list(store.list(prefix))
        listing = list_objects(store, prefix, versions=True)
        assert list(listing.keys) == [info.key for info in infos]
        assert listing.sizes_bytes.tolist() == [info.size_bytes for info in infos]
        assert [listing.version(position) for position in range(len(listing))] == [info.version for info in infos]


def test_a_directory_is_walked_once_behind_wrappers_too(store):
    metered = MeteredStore(LimitedStore(store, 2))
    assert metered.lists_by_walking is store.lists_by_walking is store.uri.startswith("file:")
    assert list(list_objects(metered).keys) == [info.key for info in store.list()]
    operations = metered.usage().operations
    assert set(operations) == ({"list"} if store.lists_by_walking else {"submit_list_page"})
    assert operations.get("list", OperationUsage(calls=1)).calls == 1


def test_pages_begin_after_any_key(store):
    keys = [info.key for info in store.list()]
    for after in ("", *keys, "a/", "zz"):
        wanted = [key for key in keys if key > after]
        page = store.submit_list_page(start_after=after).result()
        assert page.keys == wanted[:2]
        assert page.complete == (len(wanted) <= 2)
        assert page.resume_after == (wanted[:2][-1] if wanted else after)
        assert len(page.sizes_bytes) == len(page.versions) == len(page.modified_s) == len(page.keys)


def test_select_sees_each_object_once_with_its_time(store):
    seen = []

    def select(info):
        seen.append(info)
        return info.key.startswith("a/")

    listing = list_objects(store, select=select)
    assert sorted(seen, key=lambda info: info.key) == list(store.list())
    assert all(info.last_modified_s is not None for info in seen)
    assert list(listing.keys) == [info.key for info in store.list("a/")]


def test_what_select_raises_ends_the_listing(store):
    with pytest.raises(ZeroDivisionError):
        list_objects(store, select=lambda info: 1 // 0 > 0)


def test_wrong_arguments_are_told(store, tmp_path):
    with pytest.raises(ConfigError, match="at least 1; got 0"):
        list_objects(store, requests_in_flight=0)
    with pytest.raises(ConfigError, match="not valid Unicode"):
        list_objects(store, "\ud800")
    with pytest.raises(ConfigError, match="not valid Unicode"):
        store.submit_list_page("", start_after="\ud800").result()
    with pytest.raises(NotFoundError):
        list_objects(open_store(f"file://{tmp_path}/none/"))
