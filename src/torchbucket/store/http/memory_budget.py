"""The memory in which writers gather what they send, bounded for all writers of a process together."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from torchbucket.errors import StoreError
from torchbucket.store.forking import renew_after_fork
from torchbucket.store.store_future import refuse_to_wait

__all__ = ["CHUNK_BYTES", "MemoryBudget", "MemoryShare", "writers_memory"]

CHUNK_BYTES: Final = 1 << 20
"""What is lent at once, at most: a body of such pieces is sent as fast as one of a single piece."""


class MemoryBudget:
    """Lends memory to writers within a budget, which is the largest that the store of any open writer has.

    Each writer is promised a share when it is opened, which is there for it whatever others do. What nobody was
    promised is lent to whoever asks first. The one wait here, for a share, is for parts that are on their way, which
    end without any writer's doing. So no two writers can wait for each other: one that gets no more sends what it has,
    and waits for nothing but its own parts.

    Safe for use by several threads. A forked child starts with the whole budget: the parent's writers are not its.
    """

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the parent's writers, in a forked child."""
        # Reentrant: the collector may run a writer's destructor, which gives back, at any point.
        self.changed = threading.Condition(threading.RLock())
        self.budgets: Counter[int] = Counter()
        self.taken_bytes = 0  # of the budget: what is lent, and what is promised and not lent
        self.lent_bytes = 0
        self.sent_bytes = 0  # what is lent to parts on their way
        # Kept while writers are open, since fresh memory costs the kernel more time than sending it does.
        self.spare: list[bytearray] = []

    def open_share(self, uri: str, promised_bytes: int, budget_bytes: int) -> MemoryShare:
        """Promise a writer its share, once enough of what was lent beyond promises has come back.

        Args:
            uri: the object's address.
            promised_bytes: what the writer cannot do without.
            budget_bytes: ``memory_budget_bytes`` of its store.

        Raises:
            StoreError: the writers that are open hold too much of the budget, and no part of theirs is on its way, or
                this is the thread that moves them.
        """
        with self.changed:
            # Taken before it is there, so that nobody else is lent what comes back.
            share = MemoryShare(self, promised_bytes, budget_bytes)
            try:
                if not self.has_room(0) and self.sent_bytes:
                    refuse_to_wait(f"open_writer {uri}")
                self.changed.wait_for(lambda: self.has_room(0) or not self.sent_bytes)
                if not self.has_room(0):
                    others, taken_bytes = self.budgets.total() - 1, self.taken_bytes - promised_bytes
                    raise StoreError(
                        f"open_writer {uri}: {others} writers are open in this process, which hold or were promised "
                        f"{taken_bytes} bytes; this one needs {promised_bytes}, and StoreConfig.memory_budget_bytes is "
                        f"{max(self.budgets)}: close some first, raise the budget, or give the size_hint of small "
                        "objects",
                        operation="open_writer",
                        uri=uri,
                    )
            except BaseException:
                share.close()
                raise
        return share

    def has_room(self, more_bytes: int) -> bool:
        """Whether so much more of the budget can be taken; call it with the lock."""
        return self.taken_bytes + more_bytes <= max(self.budgets)


class MemoryShare:
    """One writer's part of the memory."""

    def __init__(self, memory: MemoryBudget, promised_bytes: int, budget_bytes: int) -> None:
        self._memory = memory
        self._promised_bytes = promised_bytes
        self._budget_bytes = budget_bytes
        self._lent_bytes = 0
        self._closed = False
        memory.budgets[budget_bytes] += 1
        memory.taken_bytes += promised_bytes

    def take(self, most_bytes: int) -> bytearray | None:
        """Lend up to so many bytes: all of them, or what is left of the promise; None where that is nothing."""
        memory = self._memory
        with memory.changed:
            length = most_bytes
            promised_left = self._promised_bytes - self._lent_bytes
            beyond = most_bytes - max(0, promised_left)
            if beyond > 0 and not memory.has_room(beyond):
                length = min(most_bytes, promised_left)
                if length <= 0:
                    return None
            self._lend(length)
            chunk = memory.spare.pop() if length == CHUNK_BYTES and memory.spare else None
            # Spare memory is memory, too.
            while memory.spare and memory.lent_bytes + len(memory.spare) * CHUNK_BYTES > max(memory.budgets):
                memory.spare.pop()
        return bytearray(length) if chunk is None else chunk

    def sent(self, chunks: list[bytearray]) -> None:
        """Note that memory is on its way, and will come back without the writer's doing."""
        length = sum(map(len, chunks))
        with self._memory.changed:
            self._memory.sent_bytes += length

    def give_back(self, chunks: list[bytearray], *, sent: bool = False) -> None:
        """Take memory back, also after ``close``, when the last part has arrived; ``sent`` if it was on its way."""
        memory = self._memory
        with memory.changed:
            length = sum(map(len, chunks))
            self._lend(-length)
            memory.sent_bytes -= length if sent else 0
            if memory.budgets:
                memory.spare.extend(chunk for chunk in chunks if len(chunk) == CHUNK_BYTES)
            memory.changed.notify_all()

    def close(self) -> None:
        """End the promise; the last open writer lets the spare memory go."""
        memory = self._memory
        with memory.changed:
            if self._closed:
                return
            self._closed = True
            taken = max(self._promised_bytes, self._lent_bytes)
            self._promised_bytes = 0
            memory.taken_bytes += self._lent_bytes - taken
            memory.budgets[self._budget_bytes] -= 1
            memory.budgets += Counter()  # without those that nobody has any more
            if not memory.budgets:
                memory.spare.clear()
            memory.changed.notify_all()

    def _lend(self, length: int) -> None:
        before = max(self._promised_bytes, self._lent_bytes)
        self._lent_bytes += length
        self._memory.lent_bytes += length
        # Known before the sum is read: during a call the collector may end another writer, which changes the sum.
        change = max(self._promised_bytes, self._lent_bytes) - before
        self._memory.taken_bytes += change


writers_memory: Final = MemoryBudget()
"""The process's."""
