"""A page must repeat the last name of the one before it: what a server leaves out is noticed."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from torchbucket import StoreError
from torchbucket.listing import list_objects
from torchbucket.store import open_store
from torchbucket.store.memory import MemoryStore
from torchbucket.store.protocol import ListedPage

NAMES = [f"a/{number:03}" for number in range(60)]


class Interfering:
    """A memory store whose nth listing request is answered wrongly, or changes the store first."""

    def __init__(self, page: int) -> None:
        self._store = open_store(f"memory://overlap-{id(self)}")
        assert isinstance(self._store, MemoryStore)
        self._page = page
        self.asked = 0
        self.left_out: set[int] = set()
        self.removed: dict[int, str] = {}
        for name in NAMES:
            self._store.write(name, b"x")

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        self.asked += 1
        if self.asked in self.removed:
            self._store.delete(self.removed[self.asked])
        names = [info.key for info in self._store.list(prefix, start_after=start_after)]
        if self.asked in self.left_out:
            names = names[self._page :]
        page = names[: self._page]
        future: Future[ListedPage] = Future()
        future.set_result(
            ListedPage(
                keys=page,
                sizes_bytes=[1] * len(page),
                versions=[None] * len(page),
                complete=len(names) <= self._page,
                resume_after=page[-1] if page else start_after,
            )
        )
        return future


@pytest.mark.parametrize("requests_in_flight", [1, 8])
@pytest.mark.parametrize("page", [1, 2, 7, 60, 100])
def test_what_is_there_is_listed(page: int, requests_in_flight: int) -> None:
    store = Interfering(page)
    assert list(list_objects(store, "a/", requests_in_flight=requests_in_flight).keys) == NAMES  # type: ignore[arg-type]  # a store but for its class


@pytest.mark.parametrize("struck", range(2, 7))
def test_a_page_left_out_once_is_asked_for_again(struck: int) -> None:
    store = Interfering(10)
    store.left_out = {struck}
    assert list(list_objects(store, "a/", requests_in_flight=1).keys) == NAMES  # type: ignore[arg-type]  # as above


def test_a_page_that_is_left_out_again_is_an_error() -> None:
    store = Interfering(10)
    store.left_out = {3}
    assert list(list_objects(store, "a/", requests_in_flight=1).keys) == NAMES  # type: ignore[arg-type]  # as above
    again = Interfering(10)
    again.left_out = {3, store.asked - 1}  # the last request is the one that finds no more before what is listed
    with pytest.raises(StoreError, match="'a/018' is there, and the page that must name it does not"):
        list_objects(again, "a/", requests_in_flight=1)  # type: ignore[arg-type]  # as above


def test_pages_left_out_one_after_another_are_all_listed_again() -> None:
    store = Interfering(10)
    store.left_out = {2, 3, 4}
    assert list(list_objects(store, "a/", requests_in_flight=1).keys) == NAMES  # type: ignore[arg-type]  # as above


def test_a_first_page_that_is_left_out_is_listed_again_and_missing_again_is_an_error() -> None:
    store = Interfering(10)
    store.left_out = {1}
    assert list(list_objects(store, "a/", requests_in_flight=1).keys) == NAMES  # type: ignore[arg-type]  # as above
    again = Interfering(10)
    again.left_out = {1, store.asked - 1}  # the last request is the one that finds no more before what is listed
    with pytest.raises(StoreError, match="'a/000' is there"):
        list_objects(again, "a/", requests_in_flight=1)  # type: ignore[arg-type]  # as above


def test_what_is_kept_of_a_place_that_is_listed_again_is_kept_once() -> None:
    store = Interfering(10)
    store.left_out = {1}
    seen: list[str] = []
    found = list_objects(store, "a/", requests_in_flight=1, select=lambda info: seen.append(info.key) is None)  # type: ignore[arg-type]  # as above
    assert sorted(seen) == NAMES == list(found.keys)


@pytest.mark.parametrize("struck", range(1, 9))
def test_with_several_requests_nothing_is_short(struck: int) -> None:
    store = Interfering(10)
    store.left_out = {struck}
    try:
        found = list_objects(store, "a/", requests_in_flight=8)  # type: ignore[arg-type]  # as above
    except StoreError as error:
        assert "is there" in str(error)  # either end is right
    else:
        assert list(found.keys) == NAMES


def test_an_object_that_is_removed_meanwhile_is_no_error() -> None:
    store = Interfering(10)
    store.removed = {2: "a/009"}
    found = list(list_objects(store, "a/", requests_in_flight=1).keys)  # type: ignore[arg-type]  # as above
    assert [name for name in found if name != "a/009"] == [name for name in NAMES if name != "a/009"]
