"""Names in the order of their UTF-8 bytes, and the listing of them by prefix and delimiter that every dialect needs."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

__all__ = ["ALL_NAMES", "NamePage", "Selection", "SortedNames", "list_names", "successor"]

_CHUNK_NAMES = 1024
"""Names a chunk is built with; it splits at twice that. *Source*: 2,048 pointers are 16 KiB, which insert moves in
under 1 µs."""

_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


class SortedNames:
    """Keeps names sorted, so that a listing starts anywhere in O(log n) and a PUT costs no sort.

    Python compares strings by code point, which is the order of their UTF-8 bytes. Not thread-safe: one event loop owns
    it.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        ordered = sorted(set(names))
        self._chunks = [ordered[i : i + _CHUNK_NAMES] for i in range(0, len(ordered), _CHUNK_NAMES)]
        self._last = [chunk[-1] for chunk in self._chunks]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, name: str) -> None:
        """Puts a name in its place; a name already there changes nothing."""
        if not self._chunks:
            self._chunks, self._last = [[name]], [name]
            return
        index = min(bisect_left(self._last, name), len(self._last) - 1)
        chunk = self._chunks[index]
        place = bisect_left(chunk, name)
        if place < len(chunk) and chunk[place] == name:
            return
        chunk.insert(place, name)
        if len(chunk) > 2 * _CHUNK_NAMES:
            self._chunks[index : index + 1] = [chunk[:_CHUNK_NAMES], chunk[_CHUNK_NAMES:]]
            self._last[index : index + 1] = [chunk[_CHUNK_NAMES - 1], chunk[-1]]
        else:
            self._last[index] = chunk[-1]

    def discard(self, name: str) -> None:
        """Takes a name out; a name that is not there changes nothing."""
        index = bisect_left(self._last, name)
        if index == len(self._last):
            return
        chunk = self._chunks[index]
        place = bisect_left(chunk, name)
        if chunk[place] != name:
            return
        del chunk[place]
        if chunk:
            self._last[index] = chunk[-1]
        else:
            del self._chunks[index], self._last[index]

    def from_name(self, start: str) -> Iterator[str]:
        """Yields the names that are `start` or after it, in order. The names must not change while it is consumed."""
        index = bisect_left(self._last, start)
        if index == len(self._last):
            return
        chunk = self._chunks[index]
        for place in range(bisect_left(chunk, start), len(chunk)):
            yield chunk[place]
        for later in self._chunks[index + 1 :]:
            yield from later

    def some_from(self, start: str, count: int) -> list[str]:
        """Returns up to `count` names that are `start` or after it, in order."""
        index = bisect_left(self._last, start)
        if index == len(self._last):
            return []
        place = bisect_left(self._chunks[index], start)
        found = self._chunks[index][place : place + count]
        while len(found) < count and (index := index + 1) < len(self._chunks):
            found += self._chunks[index][: count - len(found)]
        return found

    def __iter__(self) -> Iterator[str]:
        return self.from_name("")


def successor(prefix: str) -> str | None:
    """Returns the smallest string after every string that begins with `prefix`, or None where there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        if point in _SURROGATES:
            point = _SURROGATES.stop
        if point <= _LAST_CODE_POINT:
            return prefix[:-1] + chr(point)
        prefix = prefix[:-1]
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamePage:
    """One page of a listing: names and common prefixes, each sorted, and where the next page starts.

    `last` is the greatest entry of the page, name or common prefix: pass it as `after` for the next page.
    """

    names: list[str]
    common_prefixes: list[str]
    truncated: bool
    last: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which names a listing looks at, beside its prefix, before it rolls any up.

    `start` is the first name that may appear, `stop` the first that may not; empty for no bound. `keep` is asked of
    each name, and makes the cost O(names that begin with the prefix). `with_markers` lists a name that is itself a
    common prefix (it ends in the delimiter, and holds it nowhere else) among the names too, as two entries.
    """

    start: str = ""
    stop: str = ""
    keep: Callable[[str], bool] | None = None
    with_markers: bool = False


ALL_NAMES = Selection()
"""Leaves nothing out."""


def list_names(
    names: SortedNames,
    *,
    prefix: str = "",
    delimiter: str = "",
    after: str = "",
    limit: int,
    selection: Selection = ALL_NAMES,
) -> NamePage:
    """Lists the names that begin with `prefix`, rolling up those that contain `delimiter` beyond it.

    An entry is a name or a common prefix; only entries greater than `after` appear, so a common prefix that `after`
    lies in does not appear again. Cost: O(log n) an entry, whatever lies under a common prefix.

    Args:
        names: all names of the bucket.
        prefix: plain text that a name must begin with.
        delimiter: text that ends a common prefix; empty for no rolling up.
        after: lists only entries greater than this; empty for all.
        limit: the most entries in the page; 0 gives an empty page that claims to be complete, as S3 does. A common
            prefix and its marker stay together, so that a page of one entry may have two.
        selection: which names are looked at.
    """
    found: list[str] = []
    common_prefixes: list[str] = []
    last = ""
    if limit <= 0:
        return NamePage(names=found, common_prefixes=common_prefixes, truncated=False, last=last)

    if not delimiter and selection.keep is None:
        return _plain_page(names, prefix=prefix, after=after, limit=limit, selection=selection)

    def rolled_up(name: str) -> str | None:
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        return name[: cut + len(delimiter)] if cut >= 0 else None

    stop, keep = selection.stop, selection.keep
    start: str | None = max(prefix, after, selection.start)
    if after.startswith(prefix) and (inside := rolled_up(after)) is not None:
        beyond = successor(inside)
        start = None if beyond is None else max(beyond, selection.start)
    while start is not None:
        restart: str | None = None
        for name in names.from_name(start):
            if not name.startswith(prefix) or (stop and name >= stop):
                break
            if name == after or (keep is not None and not keep(name)):
                continue
            group = rolled_up(name)
            is_marker = selection.with_markers and group == name
            count = len(found) + len(common_prefixes)
            if count and count + 1 + is_marker > limit:
                return NamePage(names=found, common_prefixes=common_prefixes, truncated=True, last=last)
            if group is None:
                found.append(name)
                last = name
            else:
                common_prefixes.append(group)
                if is_marker:
                    found.append(name)
                last = group
                restart = successor(group)
                break
        start = restart
    return NamePage(names=found, common_prefixes=common_prefixes, truncated=False, last=last)


def _plain_page(names: SortedNames, *, prefix: str, after: str, limit: int, selection: Selection) -> NamePage:
    """Returns a page that rolls nothing up: a run of the sorted names, taken at once."""
    found = names.some_from(max(prefix, after, selection.start), limit + 2)
    for end in (successor(prefix), selection.stop):
        if end:
            del found[bisect_left(found, end) :]
    if found and found[0] == after:
        del found[0]
    page = found[:limit]
    return NamePage(names=page, common_prefixes=[], truncated=len(found) > limit, last=page[-1] if page else "")
