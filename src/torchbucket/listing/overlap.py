"""Whether a page goes on from the one before it, or leaves something out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from torchbucket.store.protocol import ListedPage

__all__ = ["Overlap", "cut"]


class Overlap:
    """Where the next request of a range of keys begins: before the last key listed, so that its page must repeat it.

    A page that does not repeat that key has left something out, or the object was removed meanwhile. It is asked for
    once more; after that whether the object is there decides.

    Args:
        after: the range's keys come after this one.
    """

    __slots__ = ("_anchor", "_is_doubted", "since")

    def __init__(self, after: str) -> None:
        self.since = after
        self._anchor: str | None = None
        self._is_doubted = False

    def rest(self, page: ListedPage, demand_gone: Callable[[str], None]) -> ListedPage | None:
        """What of a page follows the keys listed before; None where it is to be asked for once more.

        Args:
            page: the answer to a request that began at ``since``.
            demand_gone: raises where there is an object with that key.
        """
        anchor = self._anchor
        if anchor is None:
            return page
        position = bisect_left(page.keys, anchor)
        if position < len(page.keys) and page.keys[position] == anchor:
            if position + 1 < len(page.keys) or page.complete:
                return cut(page, position + 1, len(page.keys))
            # A page that has room for no more than the key that it repeats gets nowhere.
            self._anchor, self.since = None, page.resume_after
            return None
        if not page.complete and self.since < page.resume_after < anchor:
            # A page may be of any length, and this one ends before the key.
            self.since = page.resume_after
            return None
        if not self._is_doubted:
            self._is_doubted = True
            return None
        demand_gone(anchor)
        return cut(page, position, len(page.keys))

    def advance(self, page: ListedPage) -> None:
        """Go on from the end of a whole answer, as it came."""
        keys = page.keys
        self._is_doubted = False
        if keys and keys[-1] == page.resume_after:
            self._anchor = keys[-1]
            if len(keys) > 1:
                self.since = keys[-2]
        else:
            self._anchor, self.since = None, page.resume_after


def cut(page: ListedPage, start: int, stop: int) -> ListedPage:
    """The names of a page from ``start`` up to ``stop``, all columns alike."""
    return replace(
        page,
        keys=page.keys[start:stop],
        sizes_bytes=page.sizes_bytes[start:stop],
        versions=page.versions[start:stop],
        modified_s=page.modified_s[start:stop],
    )
