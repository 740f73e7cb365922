"""Who of two requests for the same bytes wins, by an engine that moves nothing."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from torchbucket.errors import NotFoundError, TransportError
from torchbucket.store.transport.engine import Attempt, Engine
from torchbucket.store.transport.hedge_race import Hedges
from torchbucket.store.transport.hedging import HedgePolicy
from torchbucket.store.transport.operation import Again, HedgedOperation, NextRequest, Operation, Request

GOOD = [b"HTTP/1.1 206 Partial Content\r\n", b"Content-Length: 3\r\n"]
BAD = [b"HTTP/1.1 503 Slow Down\r\n"]
REQUEST = Request(method="GET", url="http://localhost/", headers=[])


class Read(HedgedOperation[str]):
    def __init__(self) -> None:
        super().__init__("get_object", "k", "s3://b/k")
        self.adopted: list[str] = []

    def twin(self) -> Operation[str]:
        return Read()

    def adopt(self, result: str) -> str:
        self.adopted.append(result)
        return result


class Moved:
    """The engine's state, as the test sets it."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.bytes: dict[Attempt, int] = {}
        self.connecting_s: dict[Attempt, float] = {}  # how long each connection takes; inf for one that is not made

    @property
    def busy(self) -> int:
        return len(self.attempts)

    def active(self) -> list[Attempt]:
        return list(self.attempts)

    def received_bytes(self, attempt: Attempt) -> int:
        return self.bytes.get(attempt, 0)

    def sent_s(self, attempt: Attempt) -> float | None:
        sent_s = attempt.started_s + self.connecting_s.get(attempt, 0.0)
        return None if sent_s == math.inf else sent_s

    def answered_s(self, attempt: Attempt) -> float | None:
        return attempt.started_s + 0.5 if attempt.lines else None


class Track:
    """One read with two requests on the way."""

    def __init__(self, *, begun: bool = True, share: float = 1.0) -> None:
        self.policy = policy = HedgePolicy(share)
        for _ in range(100):
            policy.learn(0.02)
        self.cut: list[Attempt] = []
        self.engine = Moved()
        self.hedges = Hedges(policy, cast("Engine", self.engine), self.cut.append)
        self.read = Read()
        self.first = Attempt(self.read, REQUEST)
        self.hedges.began(self.first)
        [twin] = self.hedges.late(self.first.started_s + 1, strained=False)
        self.twin = twin
        self.second = Attempt(twin, REQUEST)
        if begun:
            self.hedges.began(self.second)

    @property
    def racing(self) -> bool:
        return self.hedges.owner(self.twin) is self.read

    def ended(self, attempt: Attempt, result: Any = None, failure: Exception | None = None) -> object:
        attempt.over = True
        return self.hedges.ended(attempt, result, failure)


def again() -> Again:
    return Again(TransportError("broken"))


def test_only_a_late_read_has_a_twin_and_only_one() -> None:
    track = Track()
    track.second.lines.extend(GOOD)
    assert track.hedges.late(track.first.started_s + 2, strained=False) == []
    assert track.second.hedge
    assert track.twin.deadline_s == track.read.deadline_s
    timely = Attempt(Read(), REQUEST)
    track.hedges.began(timely)
    assert track.hedges.late(timely.started_s + 0.02, strained=False) == []
    assert track.hedges.next_s() == pytest.approx(timely.started_s + 0.03)
    timely.lines.extend(GOOD)
    assert cast("float", track.hedges.next_s()) > timely.started_s + 0.03  # No more than a look at its body.


def test_no_twin_where_the_service_is_strained_or_the_read_given_up() -> None:
    track = Track()
    for strained, dropped in ((True, False), (False, True)):
        attempt = Attempt(Read(), REQUEST)
        attempt.operation.dropped = dropped
        track.second.lines.extend(GOOD)
        track.hedges.began(attempt)
        assert track.hedges.late(attempt.started_s + 9, strained=strained) == []
        attempt.over = True


def begun(track: Track, connecting_s: float = 0.0) -> Attempt:
    attempt = Attempt(Read(), REQUEST)
    track.engine.connecting_s[attempt] = connecting_s
    track.hedges.began(attempt)
    return attempt


def twins(track: Track, attempt: Attempt, after_s: float, *, strained: bool = False) -> int:
    track.second.lines.extend(GOOD)
    return len(track.hedges.late(attempt.started_s + after_s, strained=strained))


def test_the_time_that_a_connection_takes_is_no_lateness() -> None:
    track = Track()
    attempt = begun(track, connecting_s=math.inf)
    assert twins(track, attempt, 1.0) == 0
    track.engine.connecting_s[attempt] = 1.2
    assert twins(track, attempt, 1.21) == 0
    assert cast("float", track.hedges.next_s()) < attempt.started_s + 1.23  # It is looked at again, in time.
    assert twins(track, attempt, 1.225) == 0
    assert twins(track, attempt, 1.235) == 1


def test_the_time_that_a_connection_takes_is_not_learned() -> None:
    track = Track()
    known_s = track.policy.late_after_s
    for _ in range(300):
        attempt = begun(track, connecting_s=0.48)
        attempt.lines.extend(GOOD)
        attempt.over = True
        track.hedges.learn(attempt)
    assert track.policy.late_after_s == pytest.approx(known_s)


def test_a_late_read_waits_for_the_account_to_allow_a_second_request() -> None:
    track = Track(share=0.05)
    while track.policy.take():
        pass
    attempt = begun(track)
    assert twins(track, attempt, 0.1) == 0
    for _ in range(20):
        track.policy.learn(0.02)
    assert twins(track, attempt, 0.3) == 1


def test_a_late_read_waits_for_the_service_to_grant_requests_again() -> None:
    track = Track()
    attempt = begun(track)
    assert twins(track, attempt, 0.1, strained=True) == 0
    assert twins(track, attempt, 0.3) == 1


def test_a_second_request_that_is_late_is_replaced_by_a_third() -> None:
    track = Track()
    assert track.hedges.late(track.second.started_s + 0.02, strained=False) == []
    [third_twin] = track.hedges.late(track.second.started_s + 0.04, strained=False)
    assert track.cut == [track.second]
    assert track.twin.dropped
    third = Attempt(third_twin, REQUEST)
    track.hedges.began(third)
    assert third.hedge
    assert track.hedges.owner(third_twin) is track.read
    assert track.hedges.late(third.started_s + 0.075, strained=False) == []
    assert len(track.hedges.late(third.started_s + 0.085, strained=False)) == 1
    assert track.cut == [track.second, third]


def test_a_third_request_brings_the_result() -> None:
    track = Track()
    [third_twin] = track.hedges.late(track.second.started_s + 0.04, strained=False)
    third = Attempt(third_twin, REQUEST)
    track.hedges.began(third)
    assert track.ended(third, "bytes") == (track.read, "bytes", None)
    assert track.cut == [track.second, track.first]


def test_a_second_request_that_is_all_there_is_left_is_not_replaced() -> None:
    track = Track()
    assert track.ended(track.first, failure=again()) is None
    assert track.hedges.late(track.second.started_s + 0.04, strained=False) == []
    assert track.cut == []


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [
        (GOOD, [], "second"),
        ([], GOOD, "first"),
        (GOOD, GOOD, "second"),
        (BAD, GOOD, None),
        ([], BAD, None),
        (BAD, [], None),
        ([], [], None),
        ([], [*BAD, *GOOD], "first"),  # What came before is a proxy's or an interim answer.
    ],
)
def test_the_first_good_answer_ends_the_other_request(
    first: list[bytes], second: list[bytes], goes: str | None
) -> None:
    track = Track()
    track.first.lines.extend(first)
    track.second.lines.extend(second)
    track.hedges.decide()
    assert track.cut == ([] if goes is None else [getattr(track, goes)])
    assert track.racing == (goes != "second")


def test_the_second_brings_the_result() -> None:
    track = Track()
    assert track.ended(track.second, "bytes") == (track.read, "bytes", None)
    assert (track.cut, track.read.adopted, track.racing) == ([track.first], ["bytes"], False)


def test_the_first_brings_the_result() -> None:
    track = Track()
    assert track.ended(track.first, "bytes") == (track.read, "bytes", None)
    assert (track.cut, track.read.adopted, track.racing) == ([track.second], [], False)
    assert track.twin.dropped


def test_the_first_brings_the_result_before_the_second_has_begun() -> None:
    track = Track(begun=False)
    assert track.ended(track.first, "bytes") == (track.read, "bytes", None)
    assert track.cut == []
    assert track.twin.dropped


def test_the_first_breaks_and_the_second_brings_the_result() -> None:
    track = Track()
    assert track.ended(track.first, failure=again()) is None
    assert track.ended(track.second, "bytes") == (track.read, "bytes", None)
    assert track.cut == []


def test_both_break() -> None:
    track = Track()
    failure = again()
    assert track.ended(track.first, failure=failure) is None
    assert track.ended(track.second, failure=again()) == (track.read, None, failure)
    assert not track.racing


def test_the_second_breaks_and_the_first_goes_on() -> None:
    track = Track()
    assert track.ended(track.second, failure=again()) is None
    assert (track.cut, track.racing) == ([], False)
    assert len(track.hedges.late(track.first.started_s + 2, strained=False)) == 1  # And is asked for again.


def test_the_second_answers_and_breaks_at_once() -> None:
    track = Track()
    track.second.lines.extend(GOOD)
    failure = again()
    assert track.ended(track.second, failure=failure) == (track.read, None, failure)
    assert track.cut == [track.first]


def test_the_first_breaks_before_the_second_has_begun() -> None:
    track = Track(begun=False)
    failure = again()
    assert track.ended(track.first, failure=failure) == (track.read, None, failure)
    assert track.twin.dropped


@pytest.mark.parametrize("whose", ["first", "second"])
def test_an_answer_for_good_ends_both(whose: str) -> None:
    track = Track()
    error = NotFoundError("gone")
    operation, result, failure = cast("tuple[Any, Any, Any]", track.ended(getattr(track, whose), failure=error))
    assert operation is track.read
    assert result is None
    assert (failure.error if whose == "second" else failure) is error
    assert track.cut == [track.second if whose == "first" else track.first]
    assert not track.racing


def test_the_second_wants_another_step_and_the_first_was_given_up_for_it() -> None:
    track = Track()
    track.second.lines.extend(GOOD)
    track.hedges.decide()
    onward = NextRequest()
    assert track.ended(track.second, failure=onward) == (track.read, None, onward)


def test_a_result_that_cannot_be_taken_over_is_the_reads_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track()

    def refuse(_read: Read, _result: str) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(Read, "adopt", refuse)
    _, _, failure = cast("tuple[Any, Any, Any]", track.ended(track.second, "bytes"))
    assert isinstance(failure, ZeroDivisionError)


def test_a_body_that_stands_still_is_told_after_its_patience() -> None:
    track = Track()
    attempt = Attempt(Read(), REQUEST)
    attempt.operation.attempts = 1
    attempt.lines.extend(GOOD)
    track.hedges.began(attempt)
    track.engine.attempts = [attempt]
    now_s = attempt.started_s

    def never(_: Operation[Any]) -> bool:
        return False

    assert track.hedges.stalled(now_s, never) == []
    for step in range(1, 40):  # It moves.
        track.engine.bytes[attempt] = step
        assert track.hedges.stalled(now_s + step, never) == []
    assert track.hedges.stalled(now_s + 40.9, never) == []
    before = track.policy.scarcity
    assert track.hedges.stalled(now_s + 41.5, lambda _: True) == []  # It is its last attempt, and costs nothing.
    assert track.policy.scarcity == before
    assert track.hedges.stalled(now_s + 42.0, never) == [attempt]
    assert track.policy.scarcity > before
