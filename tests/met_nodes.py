"""Nodes that meet in one process: each is a thread, and the store by which they meet is in memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from torch.distributed import HashStore

from bucketbench.cluster.meeting import Meeting
from bucketbench.cluster.nodes import Nodes

__all__ = ["Clock", "meetings", "together"]


class Clock:
    """Seconds that pass by waiting alone."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


def meetings(count: int, *, clock: Clock | None = None, address: str = "127.0.0.1") -> list[Meeting]:
    """The meeting as each node sees it; with a clock nobody is really waited for."""
    store = HashStore()
    waiting: dict[str, Any] = {} if clock is None else {"clock": clock, "sleep": clock.sleep}
    return [Meeting(Nodes(index=i, count=count, address=address, port=1), store, **waiting) for i in range(count)]


def together(*nodes: Callable[[], Any]) -> list[Any]:
    """What each node's part gives, or the error that it raises."""
    with ThreadPoolExecutor(len(nodes)) as threads:
        parts: list[Future[Any]] = [threads.submit(node) for node in nodes]
        return [part.exception() or part.result() for part in parts]
