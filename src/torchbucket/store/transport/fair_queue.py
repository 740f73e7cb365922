"""The line in which operations wait for a free connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves groups in turn, one item of each: a read of a thousand ranges does not hold up the small one behind it.

    Not safe for use by several threads.
    """

    def __init__(self) -> None:
        self._groups: deque[deque[T]] = deque()

    def add(self, group: Iterable[T]) -> None:
        """Put a group at the end of the line; its items keep their order."""
        items = deque(group)
        if items:
            self._groups.append(items)

    def add_first(self, item: T) -> None:
        """Put one item at the head of the line."""
        self._groups.appendleft(deque((item,)))

    def pop(self) -> T | None:
        """Take the next item, or None where nothing waits."""
        if not self._groups:
            return None
        group = self._groups.popleft()
        item = group.popleft()
        if group:
            self._groups.append(group)
        return item

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[T]:
        for group in self._groups:
            yield from group
