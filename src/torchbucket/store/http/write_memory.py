"""The memory in which writers gather what they send, bounded for all writers of a process together."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from torchbucket.errors import StoreError
from torchbucket.store.forking import renew_after_fork

__all__ = ["CHUNK_BYTES", "WriteMemory", "WriterShare", "write_memory"]

CHUNK_BYTES: Final = 1 << 20
"""What is lent at once, at most: a body of such pieces is sent as fast as one of a single piece."""


class WriteMemory:
    """Lends memory to writers within a budget, which is the largest that the store of any open writer has.

    Each writer is promised a share when it is opened, which is there for it whatever others do. What nobody was
    promised is lent to whoever asks first. Nobody waits here, so no two writers can wait for each other: one that gets
    no more sends what it has, and waits for nothing but its own parts.

    Safe for use by several threads. A forked child starts with the whole budget: the parent's writers are not its.
    """

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forget the parent's writers, in a forked child."""
        # Reentrant: the collector may run a writer's destructor, which gives back, at any point.
        self.lock = threading.RLock()
        self.budgets: Counter[int] = Counter()
        self.taken_bytes = 0  # of the budget: what is lent, and what is promised and not lent
        self.lent_bytes = 0
        # Kept while writers are open, since fresh memory costs the kernel more time than sending it does.
        self.spare: list[bytearray] = []

    def open_share(self, uri: str, promised_bytes: int, budget_bytes: int) -> WriterShare:
        """Promise a writer its share.

        Args:
            uri: the object's address.
            promised_bytes: what the writer cannot do without.
            budget_bytes: ``memory_budget_bytes`` of its store.

        Raises:
            StoreError: the writers that are open were promised too much of the budget already.
        """
        with self.lock:
            budget_bytes_now = max((budget_bytes, *self.budgets))
            if self.taken_bytes + promised_bytes > budget_bytes_now:
                raise StoreError(
                    f"open_writer {uri}: {self.budgets.total()} writers are open in this process, which hold or were "
                    f"promised {self.taken_bytes} bytes; this one needs {promised_bytes}, and "
                    f"StoreConfig.memory_budget_bytes is {budget_bytes_now}: close some first, raise the budget, or "
                    "give the size_hint of small objects",
                    operation="open_writer",
                    uri=uri,
                )
            self.budgets[budget_bytes] += 1
            self.taken_bytes += promised_bytes
        return WriterShare(self, promised_bytes, budget_bytes)

    def has_room(self, more_bytes: int) -> bool:
        """Whether so much more of the budget can be taken; call it with the lock."""
        return self.taken_bytes + more_bytes <= max(self.budgets)


class WriterShare:
    """One writer's part of the memory."""

    def __init__(self, memory: WriteMemory, promised_bytes: int, budget_bytes: int) -> None:
        self._memory = memory
        self._promised_bytes = promised_bytes
        self._budget_bytes = budget_bytes
        self._lent_bytes = 0
        self._closed = False

    def take(self, most_bytes: int) -> bytearray | None:
        """Lend up to so many bytes: all of them, or what is left of the promise; None where that is nothing."""
        memory = self._memory
        with memory.lock:
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

    def give_back(self, chunks: list[bytearray]) -> None:
        """Take memory back, also after ``close``, when the last part has arrived."""
        memory = self._memory
        with memory.lock:
            self._lend(-sum(map(len, chunks)))
            if memory.budgets:
                memory.spare.extend(chunk for chunk in chunks if len(chunk) == CHUNK_BYTES)

    def close(self) -> None:
        """End the promise; the last open writer lets the spare memory go."""
        memory = self._memory
        with memory.lock:
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

    def _lend(self, length: int) -> None:
        before = max(self._promised_bytes, self._lent_bytes)
        self._lent_bytes += length
        self._memory.lent_bytes += length
        self._memory.taken_bytes += max(self._promised_bytes, self._lent_bytes) - before


write_memory: Final = WriteMemory()
"""The process's."""
