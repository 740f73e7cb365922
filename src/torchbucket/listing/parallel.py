"""A listing by several requests at once, over ranges of keys that are split while they are listed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from queue import SimpleQueue
from typing import Final

from torchbucket.listing.blocks import Block
from torchbucket.listing.key_space import KeySpace, successor
from torchbucket.store.list_page import wrong_listing
from torchbucket.store.protocol import ListedPage, Store

__all__ = ["EXTRA_REQUESTS", "list_ranges"]

EXTRA_REQUESTS: Final = 32
"""Requests that a listing may spend on splitting without a full page to show for them, besides one in 16."""

# New requests a page may lead to: two pages are not worth sixteen requests, two hundred are.
_GROWTH: Final = 3

# A range of so many pages or more is worth a split.
_WORTH_PAGES: Final = 3.0

# Up to so many pages, and 16 times those seen, a range is taken to be as full as its names suggest.
_PLAUSIBLE_PAGES: Final = 256


@dataclass(eq=False, kw_only=True, slots=True)
class _Range:
    """Part of a listing: the keys after ``after`` up to and with ``stop``, or to the end; one request is on its way.

    ``first`` and ``last`` are the ends of the page that tells how dense names are there, its own where it has one.
    """

    after: str
    stop: str | None
    first: str = ""
    last: str = ""
    pages: int = 0
    unexpected: int = 0
    tried: str = ""
    blocks: list[tuple[str, str, Block]] = field(default_factory=list)
    guess: tuple[tuple[object, ...], float] | None = None


class _Ranges:
    """The ranges of one listing, and who may be split.

    Every range has exactly one request on its way. To split a range is to begin another request at a key inside it; so
    each key belongs to one range, wherever the guess fell, and nothing is listed twice.
    """

    def __init__(self, store: Store, prefix: str, in_flight: int, keep: Callable[[ListedPage], Block | None]) -> None:
        self._store = store
        self._prefix = prefix
        self._in_flight = in_flight
        self._keep = keep
        self._space = KeySpace(prefix)
        self._answers: SimpleQueue[tuple[_Range, Future[ListedPage]]] = SimpleQueue()
        self._active: dict[_Range, Future[ListedPage]] = {}
        self._largest_page = 0
        self._arrived = 0
        self._whole = 0
        self._found: list[tuple[str, str, Block]] = []

    def run(self) -> list[Block]:
        """List everything; see ``list_ranges``."""
        try:
            self._ask(_Range(after="", stop=None))
            while self._active:
                part, future = self._answers.get()
                del self._active[part]
                self._take(part, future.result())
                self._split()
        finally:
            for future in self._active.values():
                future.cancel()
        self._found.sort(key=lambda found: found[0])
        for (_, last, _), (first, _, _) in zip(self._found, self._found[1:], strict=False):
            if first <= last:
                raise wrong_listing(self._address(), f"{first!r} came twice or after {last!r}")
        return [block for _, _, block in self._found]

    def _ask(self, part: _Range) -> None:
        future = self._store.submit_list_page(self._prefix, start_after=part.after)
        self._active[part] = future
        future.add_done_callback(lambda done: self._answers.put((part, done)))

    def _take(self, part: _Range, page: ListedPage) -> None:
        self._arrived += 1
        keys = page.keys
        if keys and keys[0] <= part.after:
            raise wrong_listing(self._address(), f"{keys[0]!r} came after {part.after!r}")
        if not page.complete and page.resume_after <= part.after:
            raise wrong_listing(self._address(), f"a page after {part.after!r} has no names and does not end")
        mine = len(keys) if part.stop is None else bisect_right(keys, part.stop)
        ended = page.complete or mine < len(keys) or (part.stop is not None and page.resume_after >= part.stop)
        if keys:
            self._space.learn(keys)
            self._largest_page = max(self._largest_page, len(keys))
        if mine:
            block = self._keep(page if mine == len(keys) else _cut(page, mine))
            if block is not None:
                self._found.append((keys[0], keys[mine - 1], block))
            part.first, part.last = keys[0], keys[mine - 1]
        if mine == self._largest_page:
            self._whole += 1
        if not ended:
            part.pages += 1
            part.after = page.resume_after
            part.unexpected = part.unexpected + 1 if self._pages_left(part) < _WORTH_PAGES else 0
            self._ask(part)

    def _split(self) -> None:
        """Give idle requests a share of the ranges that have most left."""
        slots = min(self._in_flight, 1 + _GROWTH * self._arrived)
        while self._active and len(self._active) < slots:
            spent = self._arrived - self._whole
            if spent >= EXTRA_REQUESTS + self._whole // 16:
                return
            for part in sorted(self._active, key=self._pages_left, reverse=True):
                key = self._guess(part)
                if key is not None:
                    break
            else:
                return
            self._ask(_Range(after=key, stop=part.stop, first=part.first, last=part.last))
            part.stop = key

    def _pages_left(self, part: _Range) -> float:
        seen = (part.after, part.stop, part.first, part.last, self._space.age)
        if part.guess is None or part.guess[0] != seen:
            pages = self._space.pages_between(part.after, part.stop, first=part.first, last=part.last)
            part.guess = seen, pages
        return part.guess[1]

    def _guess(self, part: _Range) -> str | None:
        """A key to split a range at; None where nothing tells that it is worth a request."""
        if part.stop is None and part.pages:
            # Whatever is known of names ends where they are spelled in another way: ask once what is there.
            key = self._space.beyond(part.after, first=part.first, last=part.last)
            if key is not None and key != part.tried:
                part.tried = key
                return key
        pages, plausible = self._pages_left(part), _PLAUSIBLE_PAGES + 16 * self._whole
        if pages >= _WORTH_PAGES:
            # A bold guess is not built on another that no page has confirmed yet.
            if pages > plausible and not part.pages:
                return None
            return self._space.between(
                part.after, part.stop, first=part.first, last=part.last, plausible_pages=plausible
            )
        return self._blind_guess(part) if part.unexpected > _WORTH_PAGES else None

    def _blind_guess(self, part: _Range) -> str | None:
        """A key further on in a range that is longer than the characters seen so far can explain."""
        part.unexpected = 0
        shared = len(commonprefix((part.first, part.last)))  # noqa: RUF071  # texts, by characters
        if len(part.first) > shared:
            # One page took so many code points at this position; go on by several times as many.
            pace = ord(part.last[shared]) - ord(part.first[shared])
            key = successor(part.last[:shared] + _after(part.last[shared], 4 * pace), keep=shared)
            if key is not None and part.after < key and (part.stop is None or key < part.stop):
                return key
        key = successor(part.last[:shared], keep=len(self._prefix))
        return key if key is not None and part.after < key and (part.stop is None or key < part.stop) else None

    def _address(self) -> str:
        return f"{self._store.uri}/{self._prefix}"


def _after(character: str, steps: int) -> str:
    return chr(min(ord(character) + steps, 0x10FFFE))


def _cut(page: ListedPage, count: int) -> ListedPage:
    return replace(
        page,
        keys=page.keys[:count],
        sizes_bytes=page.sizes_bytes[:count],
        versions=page.versions[:count],
        modified_s=page.modified_s[:count],
    )


def list_ranges(
    store: Store, prefix: str, *, requests_in_flight: int, keep: Callable[[ListedPage], Block | None]
) -> list[Block]:
    """List what is under a prefix by pages of several ranges of keys at once.

    The first page is asked for alone. Where it is not the last, idle requests split the range with most pages left, at
    a key guessed from the names seen. A listing of n pages takes at most ``n + n // 16 + EXTRA_REQUESTS +
    2 * requests_in_flight`` requests, and of few pages at most four for each.

    Args:
        store: where to list.
        prefix: plain text.
        requests_in_flight: the most requests at once.
        keep: makes a block of a page's names, or None where it keeps none of them; called in this thread.

    Returns:
        The blocks, in order.

    Raises:
        StoreError: a request failed, or the pages do not fit together.
    """
    return _Ranges(store, prefix, requests_in_flight, keep).run()
