"""One page from any key on: empty pages that go on are followed, and what gets nowhere ends with an error."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from torchbucket import StoreError
from torchbucket.listing import list_objects
from torchbucket.store.http.dialect import ListPage
from torchbucket.store.http.page_request import PageRequest
from torchbucket.store.protocol import ListedPage
from torchbucket.store.transport.operation import Call, Onward, Request

OK = [b"HTTP/1.1 200 OK\r\n"]


class ScriptedDialect:
    """Answers page requests from a script, by token."""

    def __init__(self, pages: dict[str | None, ListPage]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, str | None]] = []

    def list_page(self, prefix: str, *, start_after: str, token: str | None) -> Call[ListPage]:
        self.asked.append((start_after, token))
        request = Request(method="GET", url=f"http://h/?{token}", headers=[])
        return Call("list_objects", prefix, "s3://b/p/", lambda: request, lambda answer: self.pages[token])


def page(*keys: str, token: str | None = None) -> ListPage:
    return ListPage(keys=list(keys), sizes_bytes=[1] * len(keys), versions=[None] * len(keys), next_token=token)


def answered(request: PageRequest) -> ListedPage:
    """Run the request as the transport does."""
    for _ in range(10):
        request.build()
        request.sink(OK)
        try:
            return request.finish(OK)
        except Onward:
            continue
    raise AssertionError("no end")


def test_empty_pages_are_followed_by_their_tokens_to_the_first_names():
    dialect = ScriptedDialect({None: page(token="1"), "1": page(token="2"), "2": page("p/c", "p/d", token="3")})
    found = answered(PageRequest(dialect, "p/", "p/b"))  # type: ignore[arg-type]  # the half of a dialect that lists
    assert (found.keys, found.complete, found.resume_after) == (["p/c", "p/d"], False, "p/d")
    assert dialect.asked == [("p/b", None), ("p/b", "1"), ("p/b", "2")]


def test_an_empty_last_page_ends_the_listing():
    dialect = ScriptedDialect({None: page(token="1"), "1": page()})
    found = answered(PageRequest(dialect, "p/", "p/b"))  # type: ignore[arg-type]  # as above
    assert (found.keys, found.complete, found.resume_after) == ([], True, "p/b")


@pytest.mark.parametrize(
    ("pages", "wrong"),
    [
        ({None: page(token="1"), "1": page(token="1")}, "repeats a page's token"),
        ({None: page("p/b", "p/c")}, "'p/b' came after 'p/b'"),
        ({None: page("p/d", "p/c")}, "'p/c' came after 'p/d'"),
        ({None: page("q/a")}, "does not begin with 'p/'"),
        ({None: page(token="1"), "1": page("p/a")}, "'p/a' came after 'p/b'"),
    ],
)
def test_a_page_that_cannot_be_right_is_refused(pages, wrong):
    with pytest.raises(StoreError, match=wrong):
        answered(PageRequest(ScriptedDialect(pages), "p/", "p/b"))  # type: ignore[arg-type]  # as above


class Stuck:
    """A store whose listing stops getting on after the first names."""

    uri = "stuck://b"

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.asked = 0

    def head(self, key: str) -> None:
        assert key in self.keys

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        self.asked += 1
        keys = [key for key in self.keys if key > start_after]
        future: Future[ListedPage] = Future()
        future.set_result(
            ListedPage(
                keys=keys,
                sizes_bytes=[1] * len(keys),
                versions=[None] * len(keys),
                complete=False,
                resume_after=keys[-1] if keys else start_after,
            )
        )
        return future


@pytest.mark.parametrize("keys", [[], ["a"], ["a", "b", "c"]])
def test_a_listing_that_does_not_get_on_is_an_error(keys):
    store = Stuck(keys)
    with pytest.raises(StoreError, match="the listing would be wrong or endless"):
        list_objects(store)  # type: ignore[arg-type]  # its listing half
    assert store.asked < 20
