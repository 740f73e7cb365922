"""One page of a listing from any key on: the request behind ``submit_list_page``."""

from __future__ import annotations

from torchbucket.store.http.dialect import Dialect
from torchbucket.store.list_page import check_keys, wrong_listing
from torchbucket.store.protocol import ListedPage
from torchbucket.store.transport.operation import Onward, Operation, Request, Sink

__all__ = ["PageRequest"]


class PageRequest(Operation[ListedPage]):
    """Asks for the names after one key. A server may send an empty page that goes on; then the next one is asked for.

    Args:
        dialect: the provider's requests.
        prefix: plain text.
        start_after: where to begin; names up to this one are not asked for.
    """

    def __init__(self, dialect: Dialect, prefix: str, start_after: str) -> None:
        self._inner = dialect.list_page(prefix, start_after=start_after, token=None)
        super().__init__(self._inner.name, prefix, self._inner.uri)
        self._dialect = dialect
        self._prefix = prefix
        self._start_after = start_after
        self._tokens: set[str] = set()

    def build(self) -> Request:
        """Make the next attempt's request."""
        return self._inner.build()

    def sink(self, lines: list[bytes]) -> Sink:
        """Keep the answer's body."""
        return self._inner.sink(lines)

    def interrupted(self, lines: list[bytes]) -> Exception | None:
        """Note that the attempt broke off."""
        return self._inner.interrupted(lines)

    def finish(self, lines: list[bytes]) -> ListedPage:
        """Read and check the page."""
        page = self._inner.finish(lines)
        check_keys(page.keys, prefix=self._prefix, after=self._start_after, uri=self.uri)
        if page.next_token is not None and not page.keys:
            if page.next_token in self._tokens:
                raise wrong_listing(self.uri, "the server repeats a page's token")
            self._tokens.add(page.next_token)
            self._inner = self._dialect.list_page(self._prefix, start_after=self._start_after, token=page.next_token)
            raise Onward
        return ListedPage(
            keys=page.keys,
            sizes_bytes=page.sizes_bytes,
            versions=page.versions,
            complete=page.next_token is None,
            resume_after=page.keys[-1] if page.keys else self._start_after,
            modified_s=page.modified_s,
        )
