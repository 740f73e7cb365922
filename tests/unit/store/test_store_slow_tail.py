"""How fast a stream is where one read in a hundred takes a second longer, by a clock of the test's own."""

from __future__ import annotations

import random
import statistics
from collections import deque
from typing import Any, cast

from torchbucket.store.transport.engine import Attempt, Engine
from torchbucket.store.transport.hedge_race import Hedges
from torchbucket.store.transport.hedging import HedgePolicy
from torchbucket.store.transport.operation import HedgedOperation, Operation, Request

CONCURRENCY = 64
WINDOW = 128  # reads that are begun and not yet handed out, in order
FIRST_BYTE_S = 0.02
CONNECTING_S = 0.08  # all at once, as when a stream begins over TLS
STEP_S = 0.001
SERVING_S = 0.0005  # of each answer, by the one loop: 2,000 a second are what it can take
SLOW_S = 1.0


class Read(HedgedOperation[int]):
    def __init__(self, number: int) -> None:
        super().__init__("get_object", str(number), f"s3://b/{number}")
        self.number = number

    def twin(self) -> Operation[int]:
        return Read(self.number)

    def adopt(self, result: int) -> int:
        return result


class Stream:
    """A loop with its hedges, the service, and a consumer that takes what it reads in order."""

    def __init__(self, slow_share: float, seed: int, known: int) -> None:
        self.slow_share = slow_share
        self.rng = random.Random(seed)
        self.now_s = 0.0
        self.arrivals: dict[Attempt, float] = {}
        self.sent: dict[Attempt, float] = {}
        self.idle_connections = known
        self.hedges = Hedges(HedgePolicy(0.05), cast("Engine", self), self.cut)
        self.queue: deque[Operation[Any]] = deque()
        for _ in range(known):
            self.hedges._policy.learn(FIRST_BYTE_S)

    # What the hedges ask of an engine.

    @property
    def busy(self) -> int:
        return len(self.arrivals)

    def active(self) -> list[Attempt]:
        return list(self.arrivals)

    def received_bytes(self, _attempt: Attempt) -> int:
        return 0

    def sent_s(self, attempt: Attempt) -> float | None:
        return self.sent[attempt] if self.sent[attempt] <= self.now_s else None

    def answered_s(self, attempt: Attempt) -> float | None:
        return self.arrivals[attempt] if attempt.lines else None

    def cut(self, attempt: Attempt) -> None:
        attempt.over = True
        if not attempt.hedge:
            self.hedges.learn(attempt, self.now_s)
        del self.arrivals[attempt]  # and the connection with it

    # What a loop does.

    def begin(self, operation: Operation[Any]) -> None:
        attempt = Attempt(operation, Request(method="GET", url="http://localhost/", headers=[]))
        attempt.started_s = attempt.moved_s = self.now_s
        connecting_s = 0.0 if self.idle_connections else CONNECTING_S
        self.idle_connections = max(0, self.idle_connections - 1)
        self.sent[attempt] = self.now_s + connecting_s
        slow_s = SLOW_S if self.rng.random() < self.slow_share else 0.0
        self.arrivals[attempt] = self.sent[attempt] + FIRST_BYTE_S * self.rng.uniform(1.0, 1.2) + slow_s
        self.hedges.began(attempt)

    def serve(self, done: set[int]) -> int:
        """Take all answers that have come; return how many."""
        come = [attempt for attempt, arrival_s in self.arrivals.items() if arrival_s <= self.now_s]
        for attempt in come:
            if attempt.over:
                continue
            attempt.lines.append(b"HTTP/1.1 206 Partial Content\r\n")
            attempt.over = True
            self.hedges.learn(attempt)
            meant = self.hedges.ended(attempt, cast("Read", attempt.operation).number, None)
            del self.arrivals[attempt]
            self.idle_connections += 1
            if meant is not None:
                done.add(meant[1])
        return len(come)

    def time_s(self, count: int) -> float:
        """Read so many objects; return the seconds until the last one was handed out."""
        done: set[int] = set()
        submitted = handed_out = 0
        while handed_out < count:
            served = self.serve(done)
            if self.hedges.due(self.now_s):
                self.hedges.decide()
                self.queue.extendleft(self.hedges.late(self.now_s, strained=False))
            while handed_out in done:
                handed_out += 1
            while submitted < count and submitted - handed_out < WINDOW:
                self.queue.append(Read(submitted))
                submitted += 1
            while self.queue and len(self.arrivals) < CONCURRENCY:
                operation = self.queue.popleft()
                if not operation.dropped:
                    self.begin(operation)
            self.hedges.next_s()
            self.now_s += max(STEP_S, served * SERVING_S)
        return self.now_s


def times_s(slow_share: float, count: int, known: int) -> list[float]:
    return [Stream(slow_share, seed, known).time_s(count) for seed in range(12)]


def test_a_stream_keeps_its_rate_under_a_slow_tail() -> None:
    for count, kept in ((1000, 0.8), (500, 0.8), (96, 0.8)):
        undisturbed_s = statistics.median(times_s(0.0, count, 16))
        struck_s = times_s(0.01, count, 16)
        assert undisturbed_s / statistics.median(struck_s) >= kept, count
        assert max(struck_s) <= 2 * statistics.median(struck_s), count


def test_a_stream_that_knows_nothing_yet_waits_for_no_slow_read_to_its_end() -> None:
    assert max(times_s(0.01, 96, 0)) < 0.5 * SLOW_S


def test_a_tail_of_one_read_in_thirty_is_shortened_too() -> None:
    undisturbed_s = statistics.median(times_s(0.0, 1000, 16))
    assert statistics.median(times_s(1 / 30, 1000, 16)) <= 2 * undisturbed_s  # Without second requests: 8 times.
