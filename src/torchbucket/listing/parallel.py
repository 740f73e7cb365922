"""A listing by several requests at once, over ranges of keys that are split while they are listed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from queue import SimpleQueue
from typing import Final

from torchbucket.errors import NotFoundError, StoreError
from torchbucket.listing.blocks import Block
from torchbucket.listing.splitting import KeyRange, Splitting
from torchbucket.store.list_page import wrong_listing
from torchbucket.store.protocol import ListedPage, Store

__all__ = ["EXTRA_REQUESTS", "RangedListing"]

EXTRA_REQUESTS: Final = 64
"""Requests that a listing may spend on splitting without a full page to show for them, besides one in 16."""

# New requests a page may lead to: two pages are not worth sixteen requests, two hundred are.
_GROWTH: Final = 3


class RangedListing:
    """Lists what is under a prefix by pages of several ranges of keys at once.

    Every range has exactly one request on its way. To split a range is to begin another request at a key inside it; so
    each key belongs to one range, wherever the guess fell, and nothing is listed twice. The first page is asked for
    alone. Where it is not the last, idle requests split the range with most pages left, at a key guessed from the names
    seen. Names that fill n pages, of which each but the first repeats one name, take at most
    ``n + n // 16 + EXTRA_REQUESTS + in_flight + 1`` requests, the one to look at the first page twice.

    Args:
        store: where to list.
        prefix: plain text.
        in_flight: the most requests at once.
        keep: makes a block of a page's names, or None where it keeps none of them; called in the thread of ``run``.
    """

    def __init__(self, store: Store, prefix: str, in_flight: int, keep: Callable[[ListedPage], Block | None]) -> None:
        self._store = store
        self._prefix = prefix
        self._in_flight = in_flight
        self._keep = keep
        self._splitting = Splitting(prefix)
        self._answers: SimpleQueue[tuple[KeyRange | None, Future[ListedPage]]] = SimpleQueue()
        self._active: dict[KeyRange, Future[ListedPage]] = {}
        self._largest_page = 0
        self._asked = 0
        self._arrived = 0
        self._whole = 0
        self._found: list[tuple[str, str, Block | None]] = []
        # Names that one page has, or should repeat, each with where the page begins that must have it; None for the end
        # of the page before it.
        self._witnesses: list[tuple[str, str | None]] = []
        self._look_due = False
        self._second_look: Future[ListedPage] | None = None

    def run(self) -> list[Block]:
        """List everything, and return the blocks in order.

        Raises:
            StoreError: a request failed, or the pages do not fit together.
        """
        try:
            self._ask(KeyRange(after="", stop=None, since=""))
            while self._active or self._second_look is not None:
                part, future = self._answers.get()
                if part is None:
                    self._second_look = None
                    self._witnesses += [(key, None) for key in future.result().keys[:1]]
                elif self._active.pop(part, None) is not None:
                    self._take(part, future.result())
                self._look_again()
                self._split()
            self._hear_witnesses()
        finally:
            for future in self._active.values():
                future.cancel()
            if self._second_look is not None:
                self._second_look.cancel()
        for (_, last, _), (first, _, _) in pairwise(self._found):
            if first <= last:
                raise self._wrong(f"{first!r} came twice, or after {last!r}")
        return [block for _, _, block in self._found if block is not None]

    def _ask(self, part: KeyRange) -> None:
        self._asked += 1
        future = self._store.submit_list_page(self._prefix, start_after=part.since)
        self._active[part] = future
        future.add_done_callback(lambda done: self._answers.put((part, done)))

    def _take(self, part: KeyRange, answer: ListedPage) -> None:
        """Keep what of a page belongs to its range, and go on with the range if it goes on."""
        if not answer.complete and answer.resume_after <= part.since:
            raise self._wrong(f"the page after {part.since!r} has no names and is not the last")
        if not answer.complete and answer.resume_after <= part.after:
            # A page may be of any length, and this one has no more than what it repeats.
            part.since = answer.resume_after
            self._ask(part)
            return
        page = _cut(answer, bisect_right(answer.keys, part.after), len(answer.keys))
        keys = page.keys
        if part.since < part.after and len(answer.keys) == len(keys):
            self._witnesses.append((part.after, part.since))
        self._arrived += 1
        self._largest_page = max(self._largest_page, len(answer.keys))
        self._join(part, None if page.complete else page.resume_after)
        mine = len(keys) if part.stop is None else bisect_right(keys, part.stop)
        # One less than the longest is as long: Cloud Storage counts the key that a request begins at, S3 does not.
        is_whole = mine == len(keys) and len(answer.keys) >= self._largest_page - 1
        kept = _cut(page, 0, mine)
        self._splitting.learn(part, kept.keys, is_whole=is_whole)
        self._whole += is_whole
        if mine < len(keys):
            self._witnesses.append((keys[mine], None))
        if mine:
            self._found.append((keys[0], keys[mine - 1], self._keep(kept)))
        if page.complete or mine < len(keys):
            return  # Else it goes on, also where its end is just reached: only a name beyond tells what must come next.
        if self._arrived == 1:
            self._look_due = True
        part.pages += 1
        part.since = part.after = page.resume_after
        if len(answer.keys) > 1 and answer.keys[-1] == part.after:
            part.since = answer.keys[-2]
        self._ask(part)

    def _look_again(self) -> None:
        """Ask for the first of several pages twice: none comes before it that would tell that it is not the first."""
        if self._look_due and self._idle() > 0:
            self._look_due = False
            self._second_look = self._store.submit_list_page(self._prefix)
            self._second_look.add_done_callback(lambda done: self._answers.put((None, done)))

    def _idle(self) -> int:
        """How many more requests may be on their way."""
        slots = min(self._in_flight, 1 + _GROWTH * self._arrived)
        return slots - len(self._active) - (self._second_look is not None)

    def _hear_witnesses(self) -> None:
        """Hold the first key of all, and those at the end of a page and of a range, against the pages that follow."""
        self._found.sort(key=lambda found: found[0])
        for key, since in self._witnesses:
            place = bisect_right(self._found, key, key=lambda found: found[0])
            if since is not None or place == 0 or self._found[place - 1][1] < key:
                self._fill(place, key, since)

    def _fill(self, place: int, key: str, since: str | None) -> None:
        """List anew what lies between two pages, where a key should be that was seen and is not.

        It may have been written or removed after those pages were listed, which is no fault. Where the server left it
        out, others may be missing with it.
        """
        after = self._found[place - 1][1] if place else ""
        stop = self._found[place][0] if place < len(self._found) else None
        since = after if since is None else since
        between: list[tuple[str, str, Block | None]] = []
        is_named = is_through = False
        while not is_through:
            page = self._store.submit_list_page(self._prefix, start_after=since).result()
            is_named = is_named or key in page.keys
            mine = len(page.keys) if stop is None else bisect_left(page.keys, stop)
            kept = _cut(page, bisect_right(page.keys, after), mine)
            if kept.keys:
                between.append((kept.keys[0], kept.keys[-1], self._keep(kept)))
            is_through = page.complete or mine < len(page.keys) or (stop is not None and page.resume_after >= stop)
            if not is_through and page.resume_after <= since:
                raise self._wrong(f"the page after {since!r} has no names and is not the last")
            since = page.resume_after
        if not is_named:
            self._demand_gone(key)
        self._found[place:place] = between

    def _demand_gone(self, key: str) -> None:
        """Raise where there is an object that a page should have named and did not."""
        try:
            self._store.head(key)
        except NotFoundError:
            return
        raise self._wrong(f"{key!r} is there, and the page that must name it does not")

    def _join(self, part: KeyRange, listed_to: str | None) -> None:
        """Take back what was split off and is listed by now: there is nothing to wait for any more.

        Args:
            part: the range whose page came.
            listed_to: how far the page reaches; None for the end.
        """
        behind = {other.after: other for other in self._active if not other.pages}
        while part.stop is not None and (other := behind.get(part.stop)) is not None:
            if listed_to is not None and (other.stop is None or other.stop > listed_to):
                return
            self._active.pop(other).cancel()
            self._splitting.answer(other, is_good=False)
            part.stop = other.stop

    def _split(self) -> None:
        """Give idle requests a share of the ranges that have most left."""
        while self._active and self._idle() > 0:
            if self._asked - self._whole - len(self._active) >= EXTRA_REQUESTS + self._whole // 16:
                return
            for part in sorted(self._active, key=self._splitting.pages_left, reverse=True):
                new = self._splitting.split(part)
                if new is not None:
                    self._ask(new)
                    break
            else:
                return

    def _wrong(self, what: str) -> StoreError:
        return wrong_listing(f"{self._store.uri}/{self._prefix}", what)


def _cut(page: ListedPage, start: int, stop: int) -> ListedPage:
    """The names of a page from ``start`` up to ``stop``, all columns alike."""
    if stop - start == len(page.keys):
        return page
    return replace(
        page,
        keys=page.keys[start:stop],
        sizes_bytes=page.sizes_bytes[start:stop],
        versions=page.versions[start:stop],
        modified_s=page.modified_s[start:stop],
    )
