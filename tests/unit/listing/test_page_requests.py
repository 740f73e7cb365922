"""One page from any key on: empty pages that go on are followed, and what gets nowhere ends with an error."""

from __future__ import annotations

from concurrent.futures import Future
from urllib.parse import parse_qsl, urlsplit

import pytest

from torchbucket import StoreConfig, StoreError
from torchbucket.listing import list_objects
from torchbucket.store.http import page_request
from torchbucket.store.http.page_request import PageRequest
from torchbucket.store.protocol import ListedPage
from torchbucket.store.s3.dialect import S3Dialect
from torchbucket.store.transport.operation import NextRequest

OK = [b"HTTP/1.1 200 OK\r\n"]


class Scripted(PageRequest):
    """A request for the names below ``p/`` after ``p/b``, answered from a script, by token."""

    def __init__(self, pages: dict[str | None, bytes]) -> None:
        super().__init__(S3Dialect("b", StoreConfig(endpoint="http://h", anonymous=True)), "p/", "p/b")
        self.pages = pages
        self.asked: list[dict[str, str]] = []

    def answered(self) -> ListedPage:
        """Run the request as the transport does."""
        while True:
            query = dict(parse_qsl(urlsplit(self.build().url).query))
            self.asked.append({name: query[name] for name in ("start-after", "continuation-token") if name in query})
            self.sink(OK)(self.pages[query.get("continuation-token")])
            try:
                return self.finish(OK)
            except NextRequest:
                continue


def page(*keys: str, token: str | None = None) -> bytes:
    contents = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"<ListBucketResult>{more}{contents}</ListBucketResult>".encode()


def test_empty_pages_are_followed_by_their_tokens_to_the_first_names():
    request = Scripted({None: page(token="1"), "1": page(token="2"), "2": page("p/c", "p/d", token="3")})
    found = request.answered()
    assert (found.keys, found.complete, found.resume_after) == (["p/c", "p/d"], False, "p/d")
    assert request.asked == [{"start-after": "p/b"}, {"continuation-token": "1"}, {"continuation-token": "2"}]


def test_an_empty_last_page_ends_the_listing():
    found = Scripted({None: page(token="1"), "1": page()}).answered()
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
        Scripted(pages).answered()


def test_empty_pages_with_ever_new_tokens_are_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr(page_request, "_MOST_EMPTY_PAGES", 50)

    class EverNew(dict):
        def __missing__(self, token):
            return page(token=f"{len(request.asked)}")

    request = Scripted(EverNew())
    with pytest.raises(StoreError, match="50 empty pages came in a row, and more are promised"):
        request.answered()
    assert len(request.asked) == 51


class Stuck:
    """A store whose listing stops getting on after the first names."""

    uri = "stuck://b"
    lists_by_walking = False

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
