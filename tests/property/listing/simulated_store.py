"""A store whose listing requests take simulated time, and the names of many kinds that it may hold."""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from torchbucket import NotFoundError
from torchbucket.store.protocol import ListedPage, ObjectInfo


class SimulatedStore:
    """Answers each request after one unit of time, or after a random one, and counts requests and time.

    With ``ragged`` pages are of any length up to ``page``, and empty too, as the contract allows. With ``inclusive`` a
    page counts the key that its request begins at, as those of Cloud Storage do, though it does not have it.

    The listing waits for answers at a queue, which is where the clock advances: put ``queue`` in place of the one that
    it uses.
    """

    uri = "simulated://names"
    lists_by_walking = False

    def __init__(
        self,
        names: Iterable[str],
        *,
        page: int,
        seed: int | None = None,
        ragged: bool = False,
        inclusive: bool = False,
    ) -> None:
        self.names = sorted(set(names))
        self.page = page
        self.requests = 0
        self.time = 0.0
        self.most_in_flight = 0
        self._random = None if seed is None else random.Random(seed)
        self._ragged = random.Random(seed) if ragged else None
        self._inclusive = inclusive
        self._pending: list[tuple[float, int, Future[ListedPage], str, str]] = []

    def submit_list_page(self, prefix: str = "", *, start_after: str = "") -> Future[ListedPage]:
        self.requests += 1
        future: Future[ListedPage] = Future()
        due = self.time + (1.0 if self._random is None else self._random.expovariate(1.0))
        heapq.heappush(self._pending, (due, self.requests, future, prefix, start_after))
        self.most_in_flight = max(self.most_in_flight, len(self._pending))
        return future

    def head(self, key: str) -> ObjectInfo:
        if key not in self.names:
            raise NotFoundError("gone")
        return ObjectInfo(key=key, size_bytes=1)

    def queue(self) -> Any:
        return _Queue(self._answer_one)

    def _answer_one(self) -> None:
        self.time, _, future, prefix, start_after = heapq.heappop(self._pending)
        if not future.set_running_or_notify_cancel():
            return
        start = max(bisect_right(self.names, start_after), bisect_left(self.names, prefix))
        found = [name for name in self.names[start : start + self.page + 1] if name.startswith(prefix)]
        limit = self.page if self._ragged is None else self._ragged.randint(0, self.page)
        limit -= self._inclusive and start > 0 and self.names[start - 1] == start_after
        if limit == 0 and (not found or found[0] <= start_after + "\0"):
            limit = 1  # An empty page has to get on.
        keys = found[:limit]
        future.set_result(
            ListedPage(
                keys=keys,
                sizes_bytes=[len(key) for key in keys],
                versions=[None] * len(keys),
                complete=len(found) <= limit,
                resume_after=keys[-1] if keys else start_after + "\0" * bool(found),
            )
        )


class _Queue:
    def __init__(self, advance: Callable[[], None]) -> None:
        self._advance = advance
        self._items: list[Any] = []

    def put(self, item: Any) -> None:
        self._items.append(item)

    def get(self) -> Any:
        while not self._items:
            self._advance()
        return self._items.pop(0)


def names_of_every_kind(count: int, seed: int = 0) -> dict[str, list[str]]:
    """About so many names of each kind."""
    draw = random.Random(seed)
    script = [*range(0x4E00, 0x9FFF)]
    astral = [*range(0x1F300, 0x1F9FF), *range(0xD000, 0xD7FF), *range(0xE000, 0xE0FF)]
    words = ["alpha", "beta", "gamma", "delta", "x1", "x2", "logs", "data", "a", "b"]

    def texts(points: list[int], length: int) -> list[str]:
        return ["".join(chr(draw.choice(points)) for _ in range(length)) for _ in range(count)]

    return {
        "padded numbers": [f"train/{i:07}.jpg" for i in range(count)],
        "long numbers": [f"train/{i:012}.jpg" for i in range(count)],
        "plain numbers": [f"img_{i}.png" for i in range(count)],
        "digits only": [f"{i:08}" for i in range(count)],
        "hexadecimal": [f"{draw.getrandbits(64):016x}" for _ in range(count)],
        "classes": [f"class-{i % 100:03}/{i:012}.jpg" for i in range(count)],
        "few classes": [f"class-{i % 10}/{i:012}.jpg" for i in range(count)],
        "a prefix of 200": ["p" * 200 + f"{i:09}" for i in range(count)],
        "a hot prefix": [
            *(f"a{i:05}" for i in range(count // 200)),
            *(f"k/hot/very/deep/path/part-{i:08}" for i in range(count * 99 // 100)),
            *(f"z{i:05}" for i in range(count // 200)),
        ],
        "names that extend one another": [
            "".join(draw.choice("a.") for _ in range(draw.randint(1, 60))) for _ in range(count)
        ],
        "one script": texts(script, 6),
        "a script in turn": [f"{chr(0x4E00 + i % min(count // 5, 20_000))}/{i}" for i in range(count)],
        "astral and around the surrogates": texts(astral, 4),
        "binary": texts([*range(1, 256)], 10),
        "an uneven tree": [
            "/".join(draw.choice(words) for _ in range(draw.randint(1, 7))) + f"/{draw.randrange(10**5)}"
            for _ in range(count)
        ],
        "dates": [
            f"logs/{2015 + i % 11}/{1 + i % 12:02}/{1 + i % 28:02}/host-{draw.randrange(50)}/{i}.gz"
            for i in range(count)
        ],
        "directories of different spelling": [
            *(f"annotations/{i:06}.json" for i in range(count // 20)),
            *(f"images/train/{i:08}.png" for i in range(count * 18 // 20)),
            *(f"labels/x{i}" for i in range(count // 20)),
        ],
        "dense here and sparse there": [f"{int(10**6 * 3000 ** (i / count)):020}" for i in range(count)],
    }
