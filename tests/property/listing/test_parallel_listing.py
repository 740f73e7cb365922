"""A listing by ranges is complete, sorted and free of duplicates for any names, and splits them where they are."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from concurrent.futures import Future

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_store import SimulatedStore, names_of_every_kind

from torchbucket import StoreConfig, StoreError
from torchbucket.listing import list_objects, parallel
from torchbucket.store import open_store
from torchbucket.store.protocol import ListedPage

IN_FLIGHT = 16
COUNT = 4_000
PAGE = 40
KINDS = names_of_every_kind(COUNT)


class WaitedFor:
    """A simulated store whose clock also advances while somebody waits for a future's result."""

    uri = SimulatedStore.uri
    lists_by_walking = False

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store
        self.head = store.head

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        future = self._store.submit_list_page(prefix, start_after=start_after)
        wait = future.result

        def result(timeout: float | None = None) -> ListedPage:
            while not future.done():
                self._store._answer_one()
            return wait(timeout)

        future.result = result  # type: ignore[method-assign]  # one future's, not the class'
        return future


def listed_names(store: SimulatedStore) -> list[str]:
    listing = list_objects(WaitedFor(store), "t/", requests_in_flight=IN_FLIGHT)  # type: ignore[arg-type]  # as below
    return list(listing.keys)


TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
NARROW = st.text(st.sampled_from("a./\x01\ud7ff\ue000\U0010ffff"), max_size=8)
STEMS = st.one_of(st.just(""), st.just("p" * 200), TEXT, NARROW)
NAMES = st.builds(
    lambda stem, rest: [stem + name for name in rest],
    STEMS,
    st.lists(st.one_of(TEXT, NARROW, st.integers(0, 999).map(str)), max_size=120),
)


def listed(
    names: Iterable[str],
    prefix: str = "",
    *,
    page: int,
    seed: int | None = None,
    ragged: bool = False,
    inclusive: bool = False,
) -> SimulatedStore:
    """List the names in simulated time, and check the result and the number of requests."""
    store = SimulatedStore(names, page=page, seed=seed, ragged=ragged, inclusive=inclusive)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "SimpleQueue", store.queue)
        listing = list_objects(store, prefix, requests_in_flight=IN_FLIGHT)  # type: ignore[arg-type]  # its listing half
    wanted = [name for name in store.names if name.startswith(prefix)]
    assert list(listing.keys) == wanted
    assert listing.sizes_bytes.tolist() == [len(name) for name in wanted]
    assert store.most_in_flight <= IN_FLIGHT + parallel.EXTRA_REQUESTS  # those given up may still be on their way
    if ragged:
        return store
    if len(wanted) <= page:
        assert store.requests == 1
    if page > 1:
        pages = 1 + max(0, -(-(len(wanted) - page) // (page - 1 - inclusive)))
        assert store.requests <= pages + pages // 16 + parallel.EXTRA_REQUESTS + IN_FLIGHT + 1
    return store


@settings(max_examples=examples(50))
@given(
    st.lists(NAMES, min_size=1, max_size=3),
    st.data(),
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(0, 1000)),
    st.booleans(),
)
def test_any_names_are_listed_once_in_order(groups, data, page, seed, ragged):
    names = [name for group in groups for name in group if name]
    prefix = data.draw(st.one_of(st.just(""), TEXT, st.sampled_from(names or [""]).map(lambda name: name[:3])))
    listed(names, prefix, page=page, seed=seed, ragged=ragged)


@pytest.mark.parametrize("kind", KINDS)
def test_requests_share_the_work_whatever_names_are_like(kind):
    store = listed(KINDS[kind], page=PAGE)
    pages = -(-len(store.names) // PAGE)
    # Sixteen at once would be sixteen times as fast as one; some of the way is needed to find where names are.
    assert store.time <= pages / 5


def test_pages_that_count_the_key_they_begin_at_share_the_work_as_well():
    store = listed(names_of_every_kind(40_000)["long numbers"], page=200, inclusive=True)
    assert store.time <= 40_000 / 200 / 8


@pytest.mark.parametrize("kind", KINDS)
def test_answers_may_come_in_any_order(kind):
    for seed in range(3):
        listed(KINDS[kind][:1500], page=30, seed=seed)


def test_few_pages_take_no_longer_than_one_after_another():
    for count, longest in ((40, 1), (41, 2), (75, 2), (120, 4)):
        store = listed([f"t/{i:06}" for i in range(count)], "t/", page=40)
        assert store.time <= longest
        assert store.requests <= 4 * longest


class Written(SimulatedStore):
    """Gets new names, before all others and after each page's end, once some answers have been given."""

    answered = 0

    def _answer_one(self) -> None:
        super()._answer_one()
        self.answered += 1
        if self.answered in (1, 20, 40):
            self.names = sorted(
                {*self.names, *(f"{name}+{self.answered}" for name in ["t/", *self.names[:: self.page]])}
            )


@pytest.mark.parametrize("seed", range(5))
def test_names_written_meanwhile_are_no_fault_of_the_server(seed):
    before = [f"t/{number:06}" for number in range(3000)]
    store = Written(before, page=40, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "SimpleQueue", store.queue)
        found = listed_names(store)
    assert found == sorted(set(found))
    assert set(before) <= set(found) <= set(store.names)


class Skipping(SimulatedStore):
    """Leaves a page out of its nth answer, and goes on after it."""

    nth = 0
    answered = 0

    def _answer_one(self) -> None:
        self.answered += 1
        if self.answered != self.nth:
            super()._answer_one()
            return
        due, number, future, prefix, start_after = heapq.heappop(self._pending)
        start = max(bisect_right(self.names, start_after), bisect_left(self.names, prefix))
        after = self.names[min(start + self.page, len(self.names)) - 1]
        heapq.heappush(self._pending, (due, number, future, prefix, after))
        super()._answer_one()


@pytest.mark.parametrize("page", [25, 40])
@pytest.mark.parametrize("answers", [range(1, 90, 4), pytest.param(range(1, 90), marks=pytest.mark.nightly)])
def test_a_page_that_is_left_out_once_is_missed_and_listed(answers, page):
    names = [f"t/{number:06}" for number in range(3000)]
    for nth in answers:
        store = Skipping(names, page=page)
        store.nth = nth
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel, "SimpleQueue", store.queue)
            try:
                found = listed_names(store)
            except StoreError as error:
                assert "the listing would be wrong" in str(error), nth
            else:
                assert found == names, nth


def test_one_request_at_a_time_is_a_plain_listing():
    store = SimulatedStore(KINDS["hexadecimal"], page=1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "SimpleQueue", store.queue)
        listing = list_objects(store, requests_in_flight=1)  # type: ignore[arg-type]  # as above
    assert list(listing.keys) == store.names
    # Each page but the first repeats a name of the one before, and the first is looked at twice.
    assert store.requests == 6
    assert store.most_in_flight == 1


@settings(max_examples=examples(25))
@given(NAMES, st.integers(1, 7), st.data())
def test_a_store_in_memory_agrees_with_its_plain_listing(names, page, data):
    store = open_store(f"memory://agree-{data.draw(st.uuids())}", StoreConfig(list_page_size=page))
    for name in filter(None, names):
        store.write(name, b"x" * (len(name) % 7))
    prefix = data.draw(st.sampled_from(["", *(name[:2] for name in names)]))
    infos = list(store.list(prefix))
    listing = list_objects(store, prefix, versions=True)
    assert list(listing.keys) == [info.key for info in infos]
    assert listing.sizes_bytes.tolist() == [info.size_bytes for info in infos]
    assert [listing.version(position) for position in range(len(listing))] == [info.version for info in infos]
    kept = list_objects(store, prefix, select=lambda info: info.size_bytes > 2)
    assert list(kept.keys) == [info.key for info in infos if info.size_bytes > 2]
