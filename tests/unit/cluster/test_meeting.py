"""What nodes tell one another, for how long they wait, and what is said of one that does not answer."""

from __future__ import annotations

import pytest
from met_nodes import Clock, meetings, together

from bucketbench.cluster.meeting import Meeting, NodeLostError
from bucketbench.cluster.nodes import Nodes


def test_what_one_node_tells_the_others_hear() -> None:
    first, second = meetings(2)
    assert second.told("news") is None

    def listen() -> object:
        return second.hear("news", of=0, within_s=30, doing="to talk")

    told, heard = together(lambda: first.tell("news", {"of": ["the day"]}), listen)
    assert (told, heard) == (None, {"of": ["the day"]})


def test_bytes_of_any_number_arrive_and_are_forgotten() -> None:
    first, second = meetings(2)
    content = bytes(range(256)) * 10_000  # more than is sent at once
    second.send("parcel", content)
    second.send("empty", b"")
    waited = {"of": 1, "within_s": 30.0, "doing": "to send"}
    assert first.receive("parcel", **waited) == content  # type: ignore[arg-type]
    assert first.receive("empty", **waited) == b""  # type: ignore[arg-type]
    assert not first._has("parcel/0")


def test_a_node_that_does_not_answer_is_named_once_its_time_is_over_and_not_waited_for_again() -> None:
    clock = Clock()
    first, _ = meetings(2, clock=clock)
    with pytest.raises(NodeLostError, match=r"node 1 was waited for to send its records and .* within 60 s: it has"):
        first.hear("records", of=1, within_s=60, doing="to send its records")
    assert 60 <= clock.now_s < 61
    with pytest.raises(NodeLostError, match="node 1 was waited for to begin, and it had not answered before either"):
        first.hear("begun", of=1, within_s=60, doing="to begin")
    assert clock.now_s < 61
    first.tell("begun", 1)
    assert first.hear("begun", of=1, within_s=60, doing="to begin") == 1


def test_a_node_that_has_ended_is_not_waited_for_but_what_it_told_before_is_heard() -> None:
    clock = Clock()
    first, second = meetings(2, clock=clock)
    second.tell("records", [1])
    second.leave(130)
    waited = {"of": 1, "within_s": 60.0, "doing": "to begin"}
    assert first.hear("records", **waited) == [1]  # type: ignore[arg-type]
    with pytest.raises(NodeLostError, match="node 1 was waited for to begin and has ended with status 130; see what"):
        first.hear("begun", **waited)  # type: ignore[arg-type]
    assert clock.now_s == 0


def test_a_store_that_is_gone_is_told_with_its_address() -> None:
    class Gone:
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("Connection reset by peer\nand a stack")

        def set(self, key: str, value: str) -> None:
            self.check([key])

    meeting = Meeting(Nodes(index=1, count=2, address="a-host", port=29400), Gone())  # type: ignore[arg-type]
    with pytest.raises(NodeLostError, match=r"at a-host:29400 answers no more: node 0 .*\(Connection reset by peer\)$"):
        meeting.next_event()
    meeting.leave(1)  # which must not hide why


def test_events_come_in_their_order_and_the_last_one_is_how_it_ended() -> None:
    first, second, third = meetings(3)
    for number in range(2):
        first.announce({"job": number})

    def follow(meeting: Meeting) -> list[object]:
        events = [meeting.next_event() for _ in range(3)]
        meeting.leave(0)
        return events

    expected = [{"job": 0}, {"job": 1}, {"ended": 7}]
    assert together(lambda: first.leave(7), lambda: follow(second), lambda: follow(third))[1:] == [expected] * 2


def test_a_first_node_does_not_wait_long_for_those_that_never_leave() -> None:
    clock = Clock()
    first, _, _ = meetings(3, clock=clock)
    first.leave(0)
    assert clock.now_s < 11
