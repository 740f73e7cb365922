"""The rules of the testbed: whether it, or its host, was the limit rather than the network model."""

from __future__ import annotations

from typing import Final

from bucketbench.records import State
from bucketbench.validity.evidence import NO_SERVER, Evidence, NotJudgedError

__all__ = ["LOST_SHARE", "SERVER_SHARE", "network_model", "server_saturated"]

LOST_SHARE: Final = 0.5
"""Share of the time of waits and transfers that may be lost to the host before figures are invalid; any is a doubt.
*Source*: ours: from there on, most of what was measured is the host and not the network."""

SERVER_SHARE: Final = 0.9
"""Share of one processor that the testbed may use. *Source*: ours, and the testbed's own: it is one event loop, which
from there on makes requests wait for one another (buckettestbed.network.health)."""


def network_model(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where the testbed found that its host does not keep the network model; invalid where it is far off."""
    server = evidence.server
    if server is None:
        raise NotJudgedError(NO_SERVER)
    found = "the testbed found that this host does not keep the network model: "
    if server.lost_s is None or server.asked_s is None:
        if server.warnings is None:
            raise NotJudgedError("the version that recorded the job did not count the testbed's warnings")
        return (State.DOUBTFUL, f"{found}it warned {server.warnings} times") if server.warnings else None
    if server.lost_s <= 0:
        return None
    took_s = server.asked_s + server.lost_s
    share = server.lost_s / took_s
    return State.INVALID if share > LOST_SHARE else State.DOUBTFUL, (
        f"{found}waits and transfers that were to take {server.asked_s:.2f} s took {took_s:.2f} s, {share:.0%} of it "
        f"lost to the host (invalid above {LOST_SHARE:.0%})"
    )


def server_saturated(evidence: Evidence) -> tuple[State, str] | None:
    """Doubtful where the testbed computed nearly all the time, so that it may be what limits the client."""
    server = evidence.server
    if server is None:
        raise NotJudgedError(NO_SERVER)
    if server.processor_s is None:
        raise NotJudgedError("the version that recorded the job did not count the testbed's processor time")
    share = server.processor_s / evidence.measured_s
    if share <= SERVER_SHARE:
        return None
    return State.DOUBTFUL, (
        f"the testbed used {share:.0%} of a processor (limit {SERVER_SHARE:.0%}): it may be slower than the client"
    )
