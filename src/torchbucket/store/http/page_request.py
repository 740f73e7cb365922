"""One page of a listing from any key on: the request behind ``submit_list_page``."""

from __future__ import annotations

from typing import Final

from torchbucket.store.http.dialect import Dialect
from torchbucket.store.list_page import check_keys, wrong_listing
from torchbucket.store.protocol import ListedPage
from torchbucket.store.transport.operation import Answer, NextRequest, Operation, Request

__all__ = ["PageRequest"]

# The most empty pages in a row that are followed. Source: S3 passes over up to 1,000 names that were deleted from a
# bucket with versions for each empty page, so these are 10 million of them.
_MOST_EMPTY_PAGES: Final = 10_000


class PageRequest(Operation[ListedPage]):
    """Asks for the names after one key. A server may send an empty page that goes on; then the next one is asked for.

    Args:
        dialect: the provider's requests.
        prefix: plain text.
        start_after: where to begin; names up to this one are not asked for.
    """

    def __init__(self, dialect: Dialect, prefix: str, start_after: str) -> None:
        super().__init__("list_objects", prefix, dialect.address(prefix))
        self._dialect = dialect
        self._start_after = start_after
        self._token: str | None = None
        self._tokens: set[str] = set()

    def build(self) -> Request:
        """Ask for the first page or, after empty ones, for the next."""
        return self._dialect.requests.page_request(self.key, start_after=self._start_after, token=self._token)

    def finish(self, lines: list[bytes]) -> ListedPage:
        page, token = self._dialect.answers.read(self.name, self.key, Answer(lines, self.body()), self._read)
        check_keys(page.keys, prefix=self.key, after=self._start_after, uri=self.uri)
        if token is not None and not page.keys:
            if token in self._tokens:
                raise wrong_listing(self.uri, "the server repeats a page's token")
            self._tokens.add(token)
            if len(self._tokens) > _MOST_EMPTY_PAGES:
                raise wrong_listing(self.uri, f"{_MOST_EMPTY_PAGES:,} empty pages came in a row, and more are promised")
            self._token = token
            raise NextRequest
        return page

    def _read(self, answer: Answer) -> tuple[ListedPage, str | None]:
        return self._dialect.read_page(answer.body, start_after=self._start_after)
