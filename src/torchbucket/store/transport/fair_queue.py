"""The line in which operations wait for a free connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves callers in turn, one item of each: what asks for thousands does not hold up the one behind it.

    Not safe for use by several threads.
    """

    def __init__(self) -> None:
        self._turns: deque[tuple[Hashable, deque[T]]] = deque()
        self._lines: dict[Hashable, deque[T]] = {}

    def add(self, items: Iterable[T], caller: Hashable = None) -> None:
        """Put items behind those of the same caller, or at the end; they keep their order.

        Args:
            items: what to serve.
            caller: whose items they are; None is a caller of its own in each call.
        """
        line = self._lines.get(caller)
        if line is not None:
            line.extend(items)
            return
        line = deque(items)
        if line:
            self._turns.append((caller, line))
            if caller is not None:
                self._lines[caller] = line

    def add_first(self, item: T) -> None:
        """Put one item at the head, before everyone's."""
        self._turns.appendleft((None, deque((item,))))

    def pop(self) -> T | None:
        """Take the next item, or None where nothing waits."""
        if not self._turns:
            return None
        caller, line = self._turns.popleft()
        item = line.popleft()
        if line:
            self._turns.append((caller, line))
        elif caller is not None:
            del self._lines[caller]
        return item

    def take_out(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Remove and return the items that are not wanted any more."""
        found: list[T] = []
        turns, self._turns, self._lines = self._turns, deque(), {}
        for caller, line in turns:
            left: deque[T] = deque()
            for item in line:
                # Asked once: what another thread gives up meanwhile must be in one of the two.
                (found if unwanted(item) else left).append(item)
            if left:
                self._turns.append((caller, left))
                if caller is not None:
                    self._lines[caller] = left
        return found

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __iter__(self) -> Iterator[T]:
        for _, line in self._turns:
            yield from line
