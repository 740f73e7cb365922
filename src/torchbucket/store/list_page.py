"""One page of a listing from any key on: the request behind ``submit_list_page``, and the check of every page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torchbucket.errors import StoreError
from torchbucket.store.dialect import Dialect
from torchbucket.store.operation import Onward, Operation, Request, Sink
from torchbucket.store.protocol import ListedPage, ObjectInfo

__all__ = ["PageRequest", "check_keys", "page_of", "wrong_listing"]


def wrong_listing(uri: str, what: str) -> StoreError:
    """The error for a listing that cannot be right."""
    return StoreError(
        f"list {uri}: {what}; the listing would be wrong or endless. The server, or a cache before it, is at fault",
        operation="list_objects",
        uri=uri,
    )


def check_keys(keys: list[str], *, prefix: str, after: str, uri: str) -> None:
    """Raise ``StoreError`` unless the keys begin with ``prefix``, come after ``after`` and ascend, each once.

    Texts compare by code points, which is the order of their UTF-8 bytes.
    """
    if not keys:
        return
    if keys[0] <= after:
        raise wrong_listing(uri, f"{keys[0]!r} came after {after!r}")
    for before, key in pairwise(keys):
        if key <= before:
            raise wrong_listing(uri, f"{key!r} came after {before!r}")
    # What lies between two texts that begin with the prefix begins with it, too.
    for key in (keys[0], keys[-1]):
        if not key.startswith(prefix):
            raise wrong_listing(uri, f"{key!r} came, which does not begin with {prefix!r}")
    try:
        "".join(keys).encode()
    except UnicodeEncodeError:
        raise wrong_listing(uri, "a name came that is not valid Unicode text") from None


def page_of(infos: Sequence[ObjectInfo], limit: int, start_after: str) -> ListedPage:
    """A page of up to ``limit`` objects, of a store that looked for one more."""
    complete = len(infos) <= limit
    kept = infos[:limit]
    return ListedPage(
        keys=[info.key for info in kept],
        sizes_bytes=[info.size_bytes for info in kept],
        versions=[info.version for info in kept],
        complete=complete,
        resume_after=kept[-1].key if kept else start_after,
        modified_s=[info.last_modified_s for info in kept],
    )


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
